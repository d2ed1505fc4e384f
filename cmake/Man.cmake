# Man pages, compressed as they are installed. Two are completed with what has its source elsewhere: the client's table of options, the shipped glovebox.conf.
find_program(GZIP gzip REQUIRED)
set(MAN_DIR ${CMAKE_BINARY_DIR}/man)
file(MAKE_DIRECTORY ${MAN_DIR})
set(man_pages)

# man_page(NAME "DEPENDS" [COMMAND...])
function(man_page name depends)
  string(REGEX REPLACE ".*\\." "" section ${name})
  set(page ${CMAKE_SOURCE_DIR}/man/page)
  add_custom_command(
    OUTPUT ${MAN_DIR}/${name}.gz
    COMMAND sh ${page} ${PROJECT_VERSION} ${CMAKE_SOURCE_DIR}/man/${name}.in ${ARGN} > ${MAN_DIR}/${name}
    COMMAND ${GZIP} -9nkf ${MAN_DIR}/${name}
    DEPENDS ${page} man/${name}.in ${depends} VERBATIM)
  install(FILES ${MAN_DIR}/${name}.gz DESTINATION share/man/man${section})
  set(man_pages ${man_pages} ${MAN_DIR}/${name}.gz PARENT_SCOPE)
endfunction()

man_page(gloveboxd.8 "")
man_page(glovebox-spawner.8 "")
man_page(glovebox-standalone.8 "")
man_page(glovebox.conf.5 "man/conf-keys.awk;systemd/glovebox.conf"
  awk -f ${CMAKE_SOURCE_DIR}/man/conf-keys.awk ${CMAKE_SOURCE_DIR}/systemd/glovebox.conf)
man_page(glovebox.1 "glovebox;man/client-verbs;man/client-verbs.awk" sh ${CMAKE_SOURCE_DIR}/man/client-verbs $<TARGET_FILE:glovebox>)
add_custom_target(man ALL DEPENDS ${man_pages})
