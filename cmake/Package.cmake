# The Debian package: `./dev deb`, or cpack in the build folder. deb/ holds what only a package has.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME glovebox)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "Glovebox maintainers <maintainers@users.noreply.a-seed-a61ca6c3.example>")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/deb)
# With DESTDIR the units and the config know where they will be.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "runs code of AI agents in sealed cells
Glovebox is a service that runs code written by AI agents - Python,
JavaScript, shell, or any program - in sealed sandboxes, streams what it
prints over gRPC while it runs, and says exactly how it ended. The code has
no network, no privileges, its own process tree and file system, and limits
on time, memory, processor, output and files.
.
This package holds the server and the program that makes the sandboxes, both
as services of systemd, and the command line.")
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "systemd (>= 252)")
# The shipped runtimes; one that is not there is not offered. The bus: without it cells are no scopes, but cgroups of the spawner's unit.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "default-dbus-system-bus | dbus-system-bus, python3, nodejs")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${CMAKE_SOURCE_DIR}/deb/conffiles ${CMAKE_SOURCE_DIR}/deb/postinst ${CMAKE_SOURCE_DIR}/deb/prerm ${CMAKE_SOURCE_DIR}/deb/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_INSTALL_CMAKE_PROJECTS "${CMAKE_BINARY_DIR};${PROJECT_NAME};ALL;/;${CMAKE_BINARY_DIR};${PROJECT_NAME};deb;/")
include(CPack)

# Files of the package alone, a component that `cmake --install` leaves out.
set(doc ${CMAKE_BINARY_DIR}/deb-doc)
file(MAKE_DIRECTORY ${doc})
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${doc}/changelog "glovebox (${PROJECT_VERSION}) unstable; urgency=medium\n\n  * Built from source.\n\n -- ${CPACK_PACKAGE_CONTACT}  ${now}\n")
execute_process(COMMAND ${GZIP} -9nkf ${doc}/changelog)
install(FILES ${doc}/changelog.gz deb/copyright DESTINATION share/doc/glovebox COMPONENT deb EXCLUDE_FROM_ALL)
install(FILES deb/lintian-overrides DESTINATION share/lintian/overrides RENAME glovebox COMPONENT deb EXCLUDE_FROM_ALL)
