/* Types of files by the ending of their names. */
#pragma once

/* "image/png"; "application/octet-stream" where the ending says nothing. Never NULL. */
const char *mime_type_of(const char *path);
