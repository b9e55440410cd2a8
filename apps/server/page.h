/* server/page.h - apps/web/chat.html, built into the program, and what its headers say about it.
 *
 * Path:     apps/web/chat.html -> server/embed_page.cmake -> [this] -> GET / */
#ifndef SERVER_PAGE_H
#define SERVER_PAGE_H

#include <stddef.h>

extern const unsigned char srv_page[];
extern const size_t srv_page_size;
extern const unsigned char srv_page_gzip[]; /* the same, packed */
extern const size_t srv_page_gzip_size;
/* Only its own style and script run, by their hashes, and it talks to its own host alone. */
extern const char srv_page_policy[];
extern const char srv_page_etag[];
extern const char srv_page_gzip_etag[];

#endif
