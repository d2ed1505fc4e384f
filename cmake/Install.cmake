# Where things go. Programs find their parts in ../lib/glovebox beside their own folder, so bin and lib/glovebox move together.
install(TARGETS ${programs} RUNTIME DESTINATION bin)
install(TARGETS ${cell_programs} RUNTIME DESTINATION lib/glovebox)
install(DIRECTORY ${LIBRARY_DIR}/runtimes.d DESTINATION lib/glovebox OPTIONAL)
install(DIRECTORY inside/ DESTINATION lib/glovebox/inside
  FILES_MATCHING PATTERN "*.js" PATTERN "*.py" PATTERN "*.sh" PATTERN "__pycache__" EXCLUDE)
install(FILES systemd/glovebox.conf DESTINATION share/doc/glovebox OPTIONAL)
install(FILES README.md LICENSE DESTINATION share/doc/glovebox OPTIONAL)
install(DIRECTORY proto/glovebox DESTINATION share/glovebox/proto FILES_MATCHING PATTERN "*.proto")
