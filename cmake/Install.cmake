# Where things go. Programs find their parts in ../lib/glovebox beside their own folder, so bin and lib/glovebox move together.
install(TARGETS ${programs} RUNTIME DESTINATION bin)
install(TARGETS ${cell_programs} RUNTIME DESTINATION lib/glovebox)
install(DIRECTORY ${LIBRARY_DIR}/runtimes.d DESTINATION lib/glovebox OPTIONAL)
# What prepare.py and prepare.js make is of one machine: `./dev install` and the package run them where they install.
install(DIRECTORY ${LIBRARY_DIR}/inside DESTINATION lib/glovebox PATTERN "__pycache__" EXCLUDE PATTERN "matplotlib" EXCLUDE
  PATTERN "prepared.*" EXCLUDE)
install(DIRECTORY spawner/policy DESTINATION lib/glovebox FILES_MATCHING PATTERN "*.policy")

# systemd, in the places that it searches below any prefix (/usr or /usr/local). Where programs are is known only now, at the time of installing.
install(CODE "
  set(BINDIR \${CMAKE_INSTALL_PREFIX}/bin)
  foreach(unit gloveboxd.service glovebox-spawner.service)
    configure_file(${CMAKE_SOURCE_DIR}/systemd/units/\${unit}.in ${CMAKE_BINARY_DIR}/units/\${unit} @ONLY)
  endforeach()")
install(FILES ${CMAKE_BINARY_DIR}/units/gloveboxd.service ${CMAKE_BINARY_DIR}/units/glovebox-spawner.service DESTINATION lib/systemd/system)
install(DIRECTORY systemd/units/ DESTINATION lib/systemd/system FILES_MATCHING PATTERN "*.socket" PATTERN "*.slice" PATTERN "*.conf")
install(FILES systemd/glovebox.catalog DESTINATION lib/systemd/catalog)
install(FILES systemd/sysusers.conf DESTINATION lib/sysusers.d RENAME glovebox.conf)
install(FILES systemd/tmpfiles.conf DESTINATION lib/tmpfiles.d RENAME glovebox.conf)

# The operator's settings: every program reads /etc/glovebox, whatever the prefix. What is there already is his.
install(CODE "
  if(NOT EXISTS \$ENV{DESTDIR}/etc/glovebox/glovebox.conf)
    file(MAKE_DIRECTORY \$ENV{DESTDIR}/etc/glovebox/runtimes.d)
    file(COPY ${CMAKE_SOURCE_DIR}/systemd/glovebox.conf DESTINATION \$ENV{DESTDIR}/etc/glovebox
      FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  endif()")
install(FILES systemd/glovebox.conf DESTINATION share/doc/glovebox OPTIONAL)
install(FILES README.md LICENSE DESTINATION share/doc/glovebox OPTIONAL)
install(DIRECTORY docs DESTINATION share/doc/glovebox FILES_MATCHING PATTERN "*.md")
install(DIRECTORY proto/glovebox DESTINATION share/glovebox/proto FILES_MATCHING PATTERN "*.proto")
# The client writes the shells' completions itself, from its table of options.
if(TARGET glovebox)
  set(completions ${CMAKE_BINARY_DIR}/completion)
  file(MAKE_DIRECTORY ${completions})
  foreach(shell bash zsh fish)
    add_custom_command(TARGET glovebox POST_BUILD COMMAND glovebox completion ${shell} > ${completions}/${shell} VERBATIM)
  endforeach()
  install(FILES ${completions}/bash DESTINATION share/bash-completion/completions RENAME glovebox)
  install(FILES ${completions}/zsh DESTINATION share/zsh/site-functions RENAME _glovebox)
  install(FILES ${completions}/fish DESTINATION share/fish/vendor_completions.d RENAME glovebox.fish)
endif()
