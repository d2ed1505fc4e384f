/* What a request says of its code beyond the text: contract, inputs, variables, import policy, files to collect. */
#pragma once

#include "common/config.h"
#include "server/refusal.h"
#include "server/request.h"

#define JSON_MAX (16 * MIB) /* inputs_json, variables_json: each */
#define IMPORTS_MAX 256
#define IMPORT_NAME_MAX 256

/* 0, or a positive RefusalCode with *refusal naming the field. */
int code_check(const struct Request *request, const struct Runtime *runtime, struct Refusal *refusal);
