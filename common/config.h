/* What the operator decides: glovebox.conf and runtimes.d/NAME.conf, read by server, spawner and standalone alike. */
#pragma once

#include "common/limits.h"
#include "common/priority.h"

struct Profile {
        char *name;
        struct Limits limits; /* unset values: the server's defaults */
        struct IdlePolicy idle;
};

/* [caller NAME] */
struct CallerRule {
        char *name;              /* "uid:1000", "cert:Jane Doe"; "*": whoever has no section, each for himself */
        char *slice;             /* its cells are in pool slices below glovebox-SLICE.slice; NULL: with all others */
        uint64_t max_executions; /* at once; 0 = max_executions_per_caller */
        struct Limits together;  /* what his executions may have at once, as the sum of their limits: memory, cpus, max-processes; 0 = no bound */
};

/* One file runtimes.d/NAME.conf. */
struct Runtime {
        char *name;           /* default: the file's name */
        char *version;        /* as requests name it ("3.11"); default empty */
        char *key;            /* "NAME" or "NAME:VERSION": names just this one */
        char *exec;           /* absolute path of the interpreter inside the cell; required */
        char **args;          /* before the caller's; "{code}" stands for the code's path. Default "{code}" */
        char **version_args;  /* default "--version" */
        char **env;           /* NAME=VALUE */
        bool runner;          /* the program of `args` is a runner: it gives values and errors (common/value.h); default no */
        char **import_allowed; /* of requests without an import_policy: only these; NULL = any. Default NULL */
        bool read_only_workspace; /* the program may not write to /workspace; default no */
        char *root;           /* folder used as the cell's root; default: the host's /usr and a generated /etc */
        char **endings;       /* ".py" */
        char *code_name;      /* the code's name in the workspace: "main.py"; required */
        char *profile;        /* default empty: the server's defaults */
        uint64_t pool_min, pool_max; /* cells that are kept ready: the fewest, and as many as demand may make it; default 0 and pool_min */
        bool warm;            /* in them a process waits: the runner, started ahead, or else what becomes the program; default no */
        bool zygote;          /* interpreters are forked from one that has loaded what is common to all; needs a runner; default no */
        char **preload;       /* modules that the zygote imports, paths of files that it runs; default none */
        char **env_at_start;  /* names of variables that the interpreter reads when it starts, with a final "*": that begin so; a request
                                 that sets one has an interpreter of its own started. Default none */
        struct Limits defaults; /* [limits]; unset values: those of glovebox.conf */
        struct Limits caps;     /* [caps]; never above those of glovebox.conf */
        char *file;           /* where it was read */
};

enum AuditCode {
        AUDIT_CODE_HASH,
        AUDIT_CODE_FULL,
};

struct Config {
        /* [server] */
        char **listen;              /* "unix:/run/glovebox/glovebox.sock", "HOST:PORT", "[ADDRESS]:PORT" */
        bool listen_is_default;     /* the operator named none */
        bool plain_tcp;             /* plain-tcp: no TLS on loopback addresses; default no */
        uint64_t max_executions;    /* 0 = from memory and cpus */
        uint64_t max_executions_per_caller; /* 0 = max_executions */
        uint64_t max_waiting;       /* 256 */
        usec_t wait_deadline;       /* 10 s */
        uint64_t max_connections;   /* 1024 */
        uint64_t max_connections_per_caller; /* 256 */
        uint64_t request_budget;    /* bytes of requests being received or held; of unread output of finished executions as
                                       many again, a quarter of it one caller's; 256 MiB */
        uint64_t max_message;       /* bytes of one request; 96 MiB */
        char **operators;           /* "uid:0", "cert:NAME"; default "uid:0" */
        char *audit_file;           /* JSON lines; default none */
        enum AuditCode audit_code;
        char *node;                 /* part of execution ids; default: the host's name */
        uint64_t keep_finished;     /* per caller; 1000 */
        usec_t keep_finished_for;   /* 1 h */
        enum Priority server_priority;
        usec_t drain_deadline;      /* how long a stop waits for running executions; 10 s */
        /* [tls] */
        char *tls_certificate, *tls_key, *tls_client_ca; /* absolute paths, or names of credentials in $CREDENTIALS_DIRECTORY */
        /* [limits], [caps] */
        struct Limits defaults, caps;
        struct IdlePolicy default_idle;
        /* [profile NAME] */
        struct Profile *profiles;
        size_t n_profiles;
        /* [caller NAME] */
        struct CallerRule *callers;
        size_t n_callers;
        /* [spawner] */
        char *driver;               /* "cgroupfs", "systemd" or empty: the default of the machine */
        bool shared_scopes;         /* scope: with systemd, cells share scopes instead of having one each; default no */
        uint32_t uid_start, uid_count; /* host uids of cells */
        uint32_t spare_uid;         /* the server's where there is no user glovebox */
        char *seccomp_policy;       /* file of system calls; default: default.policy of the library folder */
        char **seccomp_allow, **seccomp_deny; /* calls added to it and taken from it */
        bool debug_seccomp;         /* denied calls go to the kernel's log */
        char **io_max;              /* "DEVICE rbps=10M wbps=10M riops=100 wiops=100": of each execution; default none */
        char **waive;               /* controllers and layers that may be missing */
        bool core_scheduling;       /* no core runs two cells at the same time; default no */
        uint64_t max_cells;         /* 1024 */
        enum Priority spawner_priority;
        bool pool;                  /* cells are kept ready, as the runtimes' pool-min and pool-max say; default yes */
        /* runtimes.d */
        struct Runtime *runtimes;
        size_t n_runtimes;
};

/* Reads FILE (NULL: /etc/glovebox/glovebox.conf, which may be missing) and the runtimes: every *.conf in the library folder's
 * runtimes.d, replaced by one of the same name in runtimes.d beside FILE. On an error: a negative errno, and in ret_error one line for
 * the operator with file, line, key and cure ("glovebox.conf:12: unknown key 'max-exections' in [server]; did you mean
 * 'max-executions'?"). */
int config_load(const char *file, struct Config **ret, char **ret_error);
struct Config *config_free(struct Config *c);
DEFINE_CLEANUP(struct Config *, config_free)

/* The rule of this caller ("uid:1000"), else that of "*", else NULL. */
const struct CallerRule *config_caller(const struct Config *c, const char *name);
/* The same name out of the config, which lives as long; NULL where no caller has this slice. */
const char *config_slice(const struct Config *c, const char *slice);
/* What an execution has that asks for nothing: the server's defaults, the runtime's, the profile's (may be NULL). */
void config_limits(const struct Config *c, const struct Runtime *runtime, const struct Profile *profile, struct Limits *ret);
const struct Profile *config_profile(const struct Config *c, const char *name);
/* "python" (the one without a version, else the first) or "python:3.11"; NULL when there is none. */
const struct Runtime *config_runtime(const struct Config *c, const char *name);
/* The uid and gid the server runs as: user "glovebox", else the spare uid. */
void config_server_ids(const struct Config *c, uid_t *ret_uid, gid_t *ret_gid);
