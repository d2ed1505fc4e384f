/* Contract, inputs, variables, import policy, files to collect. */
#include "server/admit/code.h"

#include <stdio.h>

#include "common/collect.h"
#include "common/json-check.h"

enum { /* glovebox.v1.Contract */
        CONTRACT_AUTO = 1,
        CONTRACT_MAIN,
        CONTRACT_RESULT,
        CONTRACT_SCRIPT,
};

static int refuse_without_runner(const struct Runtime *runtime, const char *field, struct Refusal *refusal) {
        return refuse(refusal, REFUSE_INVALID_ARGUMENT, field,
                      "runtime '%s' has no runner, so it takes no inputs and gives no value; leave the field out, and use args, env, stdin and files", runtime->key);
}

static int check_contract(const struct Request *r, const struct Runtime *runtime, struct Refusal *refusal) {
        if (r->contract > CONTRACT_SCRIPT)
                return refuse(refusal, REFUSE_INVALID_ARGUMENT, "contract", "%u is no contract; there are AUTO, MAIN, RESULT and SCRIPT", r->contract);
        if (!runtime->runner && (r->contract == CONTRACT_MAIN || r->contract == CONTRACT_RESULT))
                return refuse_without_runner(runtime, "contract", refusal);
        if (r->contract == CONTRACT_SCRIPT && r->inputs.size > 0)
                return refuse(refusal, REFUSE_INVALID_ARGUMENT, "inputs_json", "contract SCRIPT gives the code no inputs; use MAIN or AUTO, or leave it out");
        return 0;
}

static int check_json(const struct Bytes *json, const char *field, struct Refusal *refusal) {
        struct JsonCheck check;

        if (json->size > JSON_MAX)
                return refuse(refusal, REFUSE_INVALID_ARGUMENT, field, "%zu bytes are more than the 16777216 allowed; send a file in `files`", json->size);
        json_check_start(&check);
        if (json_check_add(&check, json->data, json->size) >= 0 && json_check_end(&check) >= 0) {
                if (streq(field, "variables_json") && check.first != '{')
                        return refuse(refusal, REFUSE_INVALID_ARGUMENT, field, "must be a JSON object: {\"name\": value, ...}");
                return 0;
        }
        return refuse(refusal, REFUSE_INVALID_ARGUMENT, field, "is not JSON: it %s, at byte %zu", check.fault, check.offset);
}

static int check_inputs(const struct Request *r, const struct Runtime *runtime, struct Refusal *refusal) {
        const struct {
                const struct Bytes *json;
                const char *field;
        } texts[] = {{&r->inputs, "inputs_json"}, {&r->variables, "variables_json"}};

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                if (texts[i].json->size == 0)
                        continue;
                if (!runtime->runner)
                        return refuse_without_runner(runtime, texts[i].field, refusal);
                int e = check_json(texts[i].json, texts[i].field, refusal);
                if (e != 0)
                        return e;
        }
        return 0;
}

static int check_imports(const struct Request *r, const struct Runtime *runtime, struct Refusal *refusal) {
        if (!r->import_restrict && r->n_import_allowed == 0)
                return 0;
        if (!runtime->runner)
                return refuse(refusal, REFUSE_INVALID_ARGUMENT, "import_policy",
                              "runtime '%s' has no runner, which would check imports; leave the field out", runtime->key);
        if (!r->import_restrict)
                return refuse(refusal, REFUSE_INVALID_ARGUMENT, "import_policy.restrict", "must be set for the list in `allowed` to act");
        if (r->n_import_allowed > IMPORTS_MAX)
                return refuse(refusal, REFUSE_INVALID_ARGUMENT, "import_policy.allowed", "%zu names are more than the %d allowed",
                              r->n_import_allowed, IMPORTS_MAX);
        for (size_t i = 0; i < r->n_import_allowed; i++) {
                const char *name = r->import_allowed[i];
                size_t n = strlen(name);
                bool plain = n > 0 && n <= IMPORT_NAME_MAX;
                /* Names of Python's modules may have any letters, so bytes above 0x7f are good. */
                for (const char *p = name; *p; p++)
                        plain = plain && (uint8_t) *p > 0x20 && *p != 0x7f;
                if (!plain)
                        return refuse(refusal, REFUSE_INVALID_ARGUMENT, "import_policy.allowed", "'%.64s' is not the name of a module: 1 to 256 bytes without blanks", name);
        }
        return 0;
}

static int check_collect(const struct Request *r, const struct Runtime *runtime, struct Refusal *refusal) {
        if (r->n_collect > COLLECT_PATTERNS_MAX)
                return refuse(refusal, REFUSE_INVALID_ARGUMENT, "collect", "%zu patterns are more than the %d allowed", r->n_collect, COLLECT_PATTERNS_MAX);
        for (size_t i = 0; i < r->n_collect; i++) {
                const char *fault = path_pattern_check(r->collect[i], strlen(r->collect[i]));
                char field[32];
                (void) snprintf(field, sizeof field, "collect[%zu]", i);
                if (fault)
                        return refuse(refusal, REFUSE_INVALID_ARGUMENT, field, "the pattern %s", fault);
        }
        return 0;
}

int code_check(const struct Request *request, const struct Runtime *runtime, struct Refusal *refusal) {
        static int (*const checks[])(const struct Request *r, const struct Runtime *runtime, struct Refusal *refusal) = {
                check_contract, check_inputs, check_imports, check_collect,
        };

        for (size_t i = 0; i < ELEMENTSOF(checks); i++) {
                int r = checks[i](request, runtime, refusal);
                if (r != 0)
                        return r;
        }
        return 0;
}
