/* What marks a kind of message in the journal (MESSAGE_ID), for `journalctl MESSAGE_ID=...` and the catalogue that explains it
 * (systemd/glovebox.catalog, `journalctl -x`); tests/check/check-catalog compares the two. A new kind: a line here (journalctl --new-id128) and an
 * entry there. Never reuse one for something else. */
#pragma once

/* an execution */
#define MESSAGE_EXECUTION_START "b07a9f9d7f7c4b5e9c6f1b4c9d0f6a51" /* accepted: who, what, with which limits */
#define MESSAGE_EXECUTION_RUNNING "5d8dbcbff93941d08b4eaaa4aa5f6b3b" /* its program runs */
#define MESSAGE_EXECUTION_END "5d1b2a6e0c1f4bd08a0f4e6c7b3a9d12" /* the result, or the refusal of one that waited */
#define MESSAGE_SANDBOX_FAILED "f37057a88cde4f8eaa61ad863b451c71" /* our fault, with the failing step */

/* a cell */
#define MESSAGE_CELL_BEGUN "0895addd06ca4a34a42a9e2691df28c9" /* with the name of its cgroup or scope */
#define MESSAGE_CELL_REMOVED "2e91988275244a82958045a7839f6ca4" /* with all its processes, cgroups and mounts */
#define MESSAGE_CELL_FAILED "70a6822cc485402983d074d07240a61e" /* could not be made, or ended */
#define MESSAGE_CELL_LOST "8fc6727a58c044ba920725b56f6b74c8" /* its init was killed by somebody else */
#define MESSAGE_CELL_LEFT "74a55b28044c44fc905681a8cc947824" /* something of it could not be removed */

/* the server */
#define MESSAGE_SERVER_READY "6ec4ecf22bae40d0a9f00013caabbe35" /* serves executions */
#define MESSAGE_SERVER_STOPPING "55274052112d49a089d54116e8dca921" /* drains */
#define MESSAGE_SERVER_WAITING "3dccf3ec80ac418f87d4b5b7c1921787" /* started without a spawner */
#define MESSAGE_SPAWNER_LATE "05e9e29624884ebc8b7741332d58cfb3" /* a run was not ended in time */
#define MESSAGE_SPAWNER_LOST "6ee8e9ef0fcf4181a3213fc154472537" /* the connection to the spawner is gone */
#define MESSAGE_RUNTIME_UNUSABLE "9c9549e11a9c4b26b911d55a9ede18b5"
#define MESSAGE_CONNECTION_CLOSED "f985e44de3214c7eac69b3771a85f109" /* a client's, by us */

/* both */
#define MESSAGE_CONFIG_READ "45514cbdb3d240baa83cc1c888b7678d" /* a reload is done */
#define MESSAGE_CONFIG_REFUSED "e916c026e26a463cb5ae08fc92417069" /* a reload, or a start, failed */
#define MESSAGE_CONFIG_RESTART "cf45379fe1304f4895535ba044ed4531" /* a changed key counts only after a restart */
#define MESSAGE_JOURNAL_LATE "6bf9eeaf79a9427585db8899a16912bb" /* it did not read: some messages are missing */

/* the spawner */
#define MESSAGE_SPAWNER_READY "fcbdc7dfaed440dfae81ca5c24e211ee" /* the wall stands */
#define MESSAGE_SPAWNER_REFUSES "012472011ed449f1bbf8328e8d8d9931" /* the wall does not stand, or the machine lacks something */
#define MESSAGE_BUILDER_DIED "44c5590df0e845ddb993dd5bc0485672" /* and all cells with it */
#define MESSAGE_ZYGOTE_FAILED "6234185ba83649ffa94512bb6913dbc3" /* executions go on, slower */
#define MESSAGE_LAYER_WAIVED "df76c65b9a4c4e39ae770307a2a37145" /* cells run without it */
#define MESSAGE_SERVER_LOST "3531dea2d2624ea59f182a4b7b5e831d" /* the server's connection has ended */
#define MESSAGE_PEER_REFUSED "dbd05822c6494cb6bed9f2d77e7899c3" /* somebody else wanted to be the server */
