/* server/messages.h - the messages of a chat request, as chat templates expect them.
 *
 * - "developer" is "system"; several system messages at the beginning become one;
 * - a system message further on becomes a user's message in its place, marked "[system]": templates
 *   know none there, and what stands before it keeps its tokens, and so its cached state;
 * - content is one string: parts of text are joined, null is ""; thoughts of the assistant are read
 *   from `reasoning_content`, `reasoning` or parts of type "thinking";
 * - arguments of tool calls are objects.
 *
 * Path:     chat_request.c -> [this] -> the request of fn_text_render
 * Memory:   *out is the caller's; it shares nothing that changes with messages. */
#ifndef SERVER_MESSAGES_H
#define SERVER_MESSAGES_H

#include "server/problem.h"

bool srv_messages_read(const json_t *messages, json_t **out, srv_problem *problem);

#endif
