# git, gcc, gpg, tar, sed, awk, find, xargs, sort, jobs and traps, as scripts use them.
# PROFILE: data
set -euo pipefail

git init -q repo
cd repo
git config user.name Someone
git config user.email someone@example.com
echo one >file
git add file
git commit -q -m first
git checkout -q -b other
echo two >>file
git commit -qa -m second
test "$(git log --oneline | wc -l)" = 2
git clone -q . ../copy
git gc -q
cd ..

cat >p.c <<'C'
#include <pthread.h>
#include <stdio.h>
static void *run(void *p) { return p; }
int main(void) {
        pthread_t threads[4];
        for (long i = 0; i < 4; i++)
                if (pthread_create(&threads[i], 0, run, (void *) i)) return 1;
        for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
        puts("compiled");
}
C
gcc -O2 -pthread -o p p.c
test "$(./p)" = compiled
gcc -static -o q p.c && ./q >/dev/null

gcc -fsanitize=address -g -o sanitized p.c
test "$(ASAN_OPTIONS=detect_leaks=0 ./sanitized)" = compiled
if command -v gpg >/dev/null; then gpg --list-keys >/dev/null 2>&1; fi
dd if=/dev/zero of=synced bs=4096 count=2 conv=fsync status=none && sync synced && sync

tar -czf a.tar.gz repo && mkdir out && tar -xzf a.tar.gz -C out
test "$(find out -name file | wc -l)" = 1
seq 1000 | sort -rn | head -n 1 | grep -qx 1000
printf 'a\0b\0' | xargs -0 -n 1 -P 4 echo | sort | tr -d '\n' | grep -qx ab
awk 'BEGIN { printf "%d\n", 6 * 7 }' | sed s/42/works/ >said
(sleep 0.05; echo late) & wait $!
trap 'echo got >trapped' USR1
kill -USR1 $$
test -s trapped
coproc cat
echo through >&"${COPROC[1]}"
read -r line <&"${COPROC[0]}"
test "$line" = through
mkfifo fifo
echo piped >fifo & read -r line <fifo
test "$line" = piped
exec 7<>/dev/null
timeout 5 true
nice true
id -un | grep -q .
test -w ~
cat said
