// ISA-L's parity kernel and the C library's copy, measured as crates/drives/examples/kernel_speed.rs measures ours.
//
// usage: isal_speed xor:SOURCES|copy BYTES warm|cold SECONDS CORE     prints bytes per second
//
// cc -O2 isal_speed.c -o isal_speed -lisal
//
// What counts, warm and cold mean the same as there; the target of xor is the last buffer, where ISA-L expects it.
#define _GNU_SOURCE
#include <isa-l.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { COLD_BYTES = 512 << 20, BATCH_BYTES = 1 << 20, SOURCES_MAX = 64, HUGE_PAGE_BYTES = 2 << 20 };

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static char *buffers(size_t bytes)
{
    size_t rounded = (bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    char *memory = aligned_alloc(HUGE_PAGE_BYTES, rounded);
    if (memory != NULL) {
        madvise(memory, rounded, MADV_HUGEPAGE);
        memset(memory, 0x5A, rounded);
    }
    return memory;
}

static int one_call(int sources, char *start, size_t length)
{
    if (sources == 0) {
        memcpy(start + length, start, length);
        return 0;
    }
    void *vectors[SOURCES_MAX + 1];
    for (int at = 0; at <= sources; at++)
        vectors[at] = start + (size_t)at * length;
    return xor_gen(sources + 1, (int)length, vectors);
}

int main(int count, char **words)
{
    if (count != 6) {
        fprintf(stderr, "usage: isal_speed xor:SOURCES|copy BYTES warm|cold SECONDS CORE\n");
        return 2;
    }
    int sources = strncmp(words[1], "xor:", 4) == 0 ? atoi(words[1] + 4) : 0;
    size_t length = strtoul(words[2], NULL, 10);
    double seconds = atof(words[4]);
    if (sources < 0 || sources > SOURCES_MAX || length == 0 || length % 32 != 0) {
        fprintf(stderr, "isal_speed: give 1 to 64 sources and a length in whole 32 bytes\n");
        return 2;
    }
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(atoi(words[5]), &cores);
    if (sched_setaffinity(0, sizeof cores, &cores) != 0) {
        perror("isal_speed: core");
        return 1;
    }
    size_t call_bytes = (sources == 0 ? 2 : (size_t)sources + 1) * length;
    size_t counted_bytes = sources == 0 ? length : call_bytes;
    size_t calls_apart = words[3][0] == 'c' && COLD_BYTES > call_bytes ? COLD_BYTES / call_bytes : 1;
    char *memory = buffers(calls_apart * call_bytes);
    if (memory == NULL) {
        perror("isal_speed: memory");
        return 1;
    }
    size_t batch = (BATCH_BYTES + call_bytes - 1) / call_bytes, calls = 0;
    double begin = seconds_now(), passed = 0;
    while (passed < seconds) {
        for (size_t left = batch; left > 0; left--, calls++) {
            if (one_call(sources, memory + calls % calls_apart * call_bytes, length) != 0) {
                fprintf(stderr, "isal_speed: xor_gen refused\n");
                return 1;
            }
            __asm__ volatile("" ::: "memory"); // or the compiler drops copies that nobody reads
        }
        passed = seconds_now() - begin;
    }
    printf("%.0f\n", (double)(calls * counted_bytes) / passed);
    return 0;
}
