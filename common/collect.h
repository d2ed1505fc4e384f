/* Records between the server and a cell's init, which lists and reads the files of the workspace when an execution has ended. Header as in
 * common/job.h. All numbers are little-endian.
 *
 * Down the collect pipe (server → init), one question:
 *      { COLLECT_BASE } { COLLECT_PATTERN } COLLECT_GO
 * Up the files pipe (init → server), its answer:
 *      { FILES_ENTRY { FILES_DATA } } FILES_END
 *
 * init tells only what differs from the base: files that are new, were changed, or are gone; the content of those that a pattern matches follows
 * its entry. It opens them with the user's rights, never follows a link, never waits. Order: folders and files by their name's bytes, unless a folder
 * holds more names than init keeps (4096); then what is gone, by path. An entry with content has as much as its stamp's size says, or less if the
 * file shrank. Where the answer stops because it is full, nothing is told to be gone. Empty folders are no entries, mount points are not entered.
 * The server believes nothing of it: it checks each length, and that no more content comes than it allowed. */
#pragma once

#include <sys/stat.h>

#include "common/job.h"
#include "common/path-pattern.h"

#define COLLECT_PATH_MAX 4096
#define COLLECT_BASE_MAX 4096          /* entries */
#define COLLECT_BASE_BYTES_MAX (5 * MIB) /* all paths of a base together; enough for each input file to have the longest */
#define COLLECT_PATTERNS_MAX 64
#define COLLECT_PATTERN_MAX PATH_PATTERN_MAX
#define COLLECT_DEPTH_MAX 64           /* folders in folders; what is deeper is told as one entry, SKIPPED_TOO_MANY */
#define COLLECT_ENTRIES_MAX 2000       /* in an answer */
#define COLLECT_ENTRY_BYTES_MAX (512 * KIB) /* all paths of an answer together */
#define COLLECT_PIECE_MAX (64 * KIB)

/* What tells that a file is still the same. ctime cannot be set by a program. */
struct FileStamp {
        uint64_t inode, size;
        uint64_t mtime, ctime; /* nanoseconds since 1970 */
};
#define FILE_STAMP_SIZE 32 /* the four, in this order */

static inline uint8_t *file_stamp_put(uint8_t *out, const struct FileStamp *s) {
        return job_put_u64(job_put_u64(job_put_u64(job_put_u64(out, s->inode), s->size), s->mtime), s->ctime);
}

static inline struct FileStamp file_stamp_get(const uint8_t *in) {
        return (struct FileStamp) {job_get_u64(in), job_get_u64(in + 8), job_get_u64(in + 16), job_get_u64(in + 24)};
}

static inline struct FileStamp file_stamp_of(const struct stat *st) {
        return (struct FileStamp) {
                .inode = st->st_ino,
                .size = (uint64_t) st->st_size,
                .mtime = (uint64_t) st->st_mtim.tv_sec * 1000000000 + (uint64_t) st->st_mtim.tv_nsec,
                .ctime = (uint64_t) st->st_ctim.tv_sec * 1000000000 + (uint64_t) st->st_ctim.tv_nsec,
        };
}

enum CollectRecord {
        COLLECT_BASE = 1,     /* a stamp, then the path: a file that was there before, relative to /workspace */
        COLLECT_PATTERN,      /* common/path-pattern.h; relative to /workspace */
        COLLECT_GO,           /* 64-bit: most bytes of content to send, together */
        COLLECT_RECORD_MAX_,
};

/* As in glovebox.v1. */
enum FileChange {
        FILE_UNCHANGED,       /* told because a pattern matches, or because nobody could look (folders that are unreadable or too deep) */
        FILE_ADDED,
        FILE_MODIFIED,
        FILE_DELETED,         /* the stamp is the one of the base */
};

enum FileSkipped {
        FILE_NOT_SKIPPED,
        FILE_SYMLINK,
        FILE_SPECIAL,         /* FIFO, socket or device */
        FILE_BUSY,            /* a process holds a lease on it */
        FILE_TOO_LARGE,       /* above what is left of COLLECT_GO; not read at all */
        FILE_TOO_MANY,        /* a folder that is too deep */
        FILE_UNREADABLE,      /* a file or a folder; the stamp may be zeros */
        FILE_VANISHED,        /* a file or a folder, between being listed and being opened */
};

enum FilesRecord {
        FILES_ENTRY = 1,      /* change and skipped: one byte each (glovebox.v1.Change, Skipped); one byte, 1 = a pattern matched; one byte, 0;
                                 a stamp; then the path's bytes as they are */
        FILES_DATA,           /* a piece of the content of the last entry */
        FILES_END,            /* one byte of flags: 1 = there are more entries than were told */
        FILES_RECORD_MAX_,
};
