/* Preloaded into mdadm, so that it examines a file without a block device over it: answers what it asks a drive
 * before it reads. The sector size and the serial number come from the environment. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/fs.h>
#include <scsi/sg.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

static int inquire(struct sg_io_hdr *request) {
    unsigned char *answer = request->dxferp;
    const char *serial = getenv("FILE_SERIAL");
    size_t length = serial ? strlen(serial) : 0;
    if (length == 0 || request->dxfer_len < 4 + length) return -1;
    memset(answer, 0, request->dxfer_len);
    answer[1] = 0x80; /* the page of the unit's serial number */
    answer[3] = (unsigned char)length;
    memcpy(answer + 4, serial, length);
    request->status = request->host_status = request->driver_status = 0;
    request->info = 0;
    return 0;
}

int ioctl(int file, unsigned long request, ...) {
    static int (*real)(int, unsigned long, ...);
    va_list arguments;
    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    struct stat status;
    const char *sector = getenv("FILE_SECTOR_BYTES");
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
        if (request == BLKSSZGET) return *(int *)argument = sector ? atoi(sector) : 512, 0;
        if (request == BLKGETSIZE64) return *(unsigned long long *)argument = status.st_size, 0;
        if (request == SG_IO) return inquire(argument);
    }
    if (!real) real = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
    return real(file, request, argument);
}
