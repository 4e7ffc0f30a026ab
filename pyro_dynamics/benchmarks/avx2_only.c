/* Loaded before a program (LD_PRELOAD), this answers CPUID as a processor without AVX-512, AVX-VNNI and AMX does.
 *
 * Linux on x86-64 can make the instruction fault (arch_prctl ARCH_CPUID) where the processor or its hypervisor allows
 * it. All libraries of the process then choose their code for AVX2. Compilers that it starts are left alone, so that what
 * they compile for the processor at hand (torch.compile's loops) may use more.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { ARCH_SET_CPUID = 0x1012 };

static uint32_t without(uint32_t word, int count, const int *bits) {
    for (int i = 0; i < count; i++) word &= ~(1u << bits[i]);
    return word;
}
#define WITHOUT(word, ...) without(word, sizeof((int[]){__VA_ARGS__}) / sizeof(int), (int[]){__VA_ARGS__})

static void answer(int signal_number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uint8_t *instruction = (const uint8_t *)registers[REG_RIP];
    (void)info;
    if (instruction[0] != 0x0f || instruction[1] != 0xa2) { /* a real fault: it comes again, and ends the process */
        signal(signal_number, SIG_DFL);
        return;
    }
    uint32_t a = registers[REG_RAX], c = registers[REG_RCX], leaf = a, part = c, b, d;
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, 1);
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0);
    if (leaf == 7 && part == 0) {
        b = WITHOUT(b, 16, 17, 21, 26, 27, 28, 30, 31); /* AVX-512 F, DQ, IFMA, PF, ER, CD, BW, VL */
        c = WITHOUT(c, 1, 6, 11, 12, 14);               /* VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ */
        d = WITHOUT(d, 2, 3, 8, 22, 23, 24, 25);        /* 4VNNIW, 4FMAPS, VP2INTERSECT, AMX, FP16 */
    } else if (leaf == 7 && part == 1) {
        a = WITHOUT(a, 4, 5, 21); /* AVX-VNNI, AVX-512 BF16, AMX FP16 */
        d = 0;
    }
    registers[REG_RAX] = a, registers[REG_RBX] = b, registers[REG_RCX] = c, registers[REG_RDX] = d;
    registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void start(void) {
    if (strncmp(program_invocation_short_name, "python", 6)) return; /* a compiler has a use of its own for SIGSEGV */
    struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
    sigaction(SIGSEGV, &action, 0);
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0);
}
