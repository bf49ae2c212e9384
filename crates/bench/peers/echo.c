// The least that answers an MCP client: it finds the id of a line and says the same result to each.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char INITIALIZED[] =
    "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"echo\",\"version\":\"1\"}}";
static const char CALLED[] = "{\"content\":[{\"type\":\"text\",\"text\":\"ok\"}],\"isError\":false}";

int main(void) {
    static char line[1 << 20], answer[1 << 12];
    size_t held = 0;
    for (;;) {
        ssize_t read_now = read(0, line + held, sizeof line - held - 1);
        if (read_now <= 0) return 0;
        held += (size_t)read_now;
        line[held] = 0;
        char *begin = line, *end;
        while ((end = memchr(begin, '\n', held - (size_t)(begin - line)))) {
            *end = 0;
            char *id = strstr(begin, "\"id\":");
            if (id) {
                const char *result = strstr(begin, "\"initialize\"") ? INITIALIZED : CALLED;
                int length = snprintf(answer, sizeof answer, "{\"jsonrpc\":\"2.0\",\"id\":%.*s,\"result\":%s}\n",
                                      (int)strcspn(id + 5, ",}"), id + 5, result);
                if (write(1, answer, (size_t)length) != length) return 1;
            }
            begin = end + 1;
        }
        held -= (size_t)(begin - line);
        memmove(line, begin, held);
        if (held == sizeof line - 1) return 1;
    }
}
