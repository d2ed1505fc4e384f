/* The server's own confinement. */
#pragma once

/* For good, and for every thread started later: no new process, no other program, none of the calls by which exploits go on. Needs
 * no_new_privs. A program built with a sanitizer is left as it is, since that starts a process to look for leaks. */
int confine_self(void);
