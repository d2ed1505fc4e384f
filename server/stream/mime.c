/* Types of files by the ending of their names: as IANA lists them (https://www.iana.org/assignments/media-types), else as they are usually called
 * (text/x-python). What files really hold is their reader's to check: it comes from a cell. */
#include "server/stream/mime.h"

#include <string.h>
#include <strings.h>

#include "common/util.h"

static const struct {
        const char *ending, *type;
} types[] = {
        {"avif", "image/avif"},
        {"bmp", "image/bmp"},
        {"c", "text/x-c"},
        {"css", "text/css"},
        {"csv", "text/csv"},
        {"db", "application/vnd.sqlite3"},
        {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
        {"eps", "application/postscript"},
        {"geojson", "application/geo+json"},
        {"gif", "image/gif"},
        {"gz", "application/gzip"},
        {"htm", "text/html"},
        {"html", "text/html"},
        {"ico", "image/vnd.microsoft.icon"},
        {"ics", "text/calendar"},
        {"ipynb", "application/x-ipynb+json"},
        {"jpeg", "image/jpeg"},
        {"jpg", "image/jpeg"},
        {"js", "text/javascript"},
        {"json", "application/json"},
        {"jsonl", "application/jsonl"},
        {"log", "text/plain"},
        {"md", "text/markdown"},
        {"mjs", "text/javascript"},
        {"mp3", "audio/mpeg"},
        {"mp4", "video/mp4"},
        {"odt", "application/vnd.oasis.opendocument.text"},
        {"ogg", "audio/ogg"},
        {"parquet", "application/vnd.apache.parquet"},
        {"pdf", "application/pdf"},
        {"png", "image/png"},
        {"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
        {"ps", "application/postscript"},
        {"py", "text/x-python"},
        {"sh", "application/x-sh"},
        {"sqlite", "application/vnd.sqlite3"},
        {"svg", "image/svg+xml"},
        {"tar", "application/x-tar"},
        {"tex", "application/x-tex"},
        {"tif", "image/tiff"},
        {"tiff", "image/tiff"},
        {"toml", "application/toml"},
        {"ts", "text/x-typescript"},
        {"tsv", "text/tab-separated-values"},
        {"txt", "text/plain"},
        {"wasm", "application/wasm"},
        {"wav", "audio/wav"},
        {"webm", "video/webm"},
        {"webp", "image/webp"},
        {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
        {"xml", "application/xml"},
        {"yaml", "application/yaml"},
        {"yml", "application/yaml"},
        {"zip", "application/zip"},
};

const char *mime_type_of(const char *path) {
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');

        /* ".profile" has no ending. */
        if (dot && dot != name)
                for (size_t i = 0; i < ELEMENTSOF(types); i++)
                        if (strcasecmp(types[i].ending, dot + 1) == 0)
                                return types[i].type;
        return "application/octet-stream";
}
