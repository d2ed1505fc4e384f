/* Input files and the working folder: are the names sound, do they fit, does the folder exist. */
#pragma once

#include "server/refusal.h"
#include "server/request.h"

/* 0 or a positive RefusalCode; negative errno when memory is short. */
int workspace_check(const struct Request *request, const char *code_name, const struct Limits *limits, struct Refusal *refusal);
/* The absolute path of the folder the code starts in. It exists if it is /workspace, /tmp or made by a file's path. */
int workspace_working_dir(const struct Request *request, char **ret, struct Refusal *refusal);
