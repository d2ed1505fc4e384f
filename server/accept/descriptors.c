/* Takes the file that protoc wrote into the program. */
#include "server/accept/descriptors.h"

__asm__(".pushsection .rodata\n"
        ".global descriptors_start, descriptors_end\n"
        "descriptors_start:\n"
        ".incbin \"" DESCRIPTORS "\"\n"
        "descriptors_end:\n"
        ".popsection\n");
