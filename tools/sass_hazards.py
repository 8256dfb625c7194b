#!/usr/bin/env python3
"""Looks for instructions of a GPU that read a register before the one that fills it is done.

  sass_hazards.py PATH...       cubins, object files, or folders of them (a build folder): *.cubin and *.cu.o
  sass_hazards.py --shortest PATH...   and the shortest distance seen for each watched instruction
  sass_hazards.py --self-check  this tool against a few lines of machine code whose answers are known

Instructions of fixed latency have no interlock: the assembler writes into each how many cycles to wait before the next.
ptxas 13.0 can lose a wait where a second, predicated instruction writes the same register (docs/decisions/0113). From each
instruction of WATCHED this follows the code, both ways at a branch that may be taken, and adds up those waits until its
registers are read or surely written anew. A predicated write leaves the first value in place unless its predicate
holds, so the search goes on behind it; a read under that same predicate sees the later value and does not count.

Waiting for a load (a scoreboard) counts as nothing, since the load may be done already: a warning can be false, but a
silent pass over straight code is not. Not followed: calls, and jumps to an address in a register.
Needs cuobjdump (CUDA toolkit) in PATH. Exit status: 0 nothing found, 1 something found, 2 could not look.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys

# Cycles before a result may be read, up to which architecture: what ptxas keeps everywhere else (see --shortest).
WATCHED = {"CS2R": ((89, 6), (999, 7))}
FAR = 32  # cycles behind which --shortest looks no further

LINE = re.compile(r"\s+/\*([0-9a-f]{4,6})\*/\s+(.*?)\s*;\s+/\* 0x[0-9a-f]{16} \*/")
SECOND = re.compile(r"\s+/\* (0x[0-9a-f]{16}) \*/")
WORDS = re.compile(r"(?:@(!?U?P(?:\d+|T)) )?(\S+)\s*(.*)")
REGISTER = re.compile(r"(?<![A-Z])R(\d+)(\.64|\.F32x2)?")
WRITES_NONE = ("ST", "RED", "LDGSTS", "BRA", "BRX", "JM", "CALL", "RET", "EXIT", "BAR", "R2UR", "R2P", "UTM", "SYNCS",
               "WARPSYNC", "CCTL", "FCHK", "BSSY", "BSYNC", "BREAK", "DEPBAR", "ERRBAR", "MEMBAR", "NANOSLEEP")
TWO_EACH = ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX", "FADD2", "FMUL2", "FFMA2")  # registers an operand
RESULT_SECOND = ("LOP3", "SHFL", "ATOM", "VOTE", "MATCH")  # a predicate stands in front of their register


class Instruction:
    def __init__(self, address, text, control):
        self.address, self.text = address, text
        self.wait = max(1, control >> 41 & 15)  # bits 105 to 108 of the 128
        self.predicate, self.op, operands = WORDS.match(text).groups()
        self.operands = [o.strip() for o in operands.split(",")] if operands else []
        self.name = self.op.split(".")[0]
        at = self._result_at()
        self.writes = self._written(self.operands[at]) if at is not None else set()
        rest = [o for i, o in enumerate(self.operands) if i != at and not re.fullmatch(r"!?U?P[\dTR]", o)]
        self.reads = set().union(*(self._read(o, i == len(rest) - 1) for i, o in enumerate(rest)))
        self.sets = {o for o in self.operands[:3] if re.fullmatch(r"U?P\d", o)}  # at most: they come early
        if self.name == "R2P":
            self.sets = {f"P{i}" for i in range(8)}

    def _result_at(self):
        if self.name.startswith(WRITES_NONE) or "SETP" in self.name:
            return None
        at = 1 if self.name.startswith(RESULT_SECOND) and re.match(r"U?P", self.operands[0]) else 0
        return at if at < len(self.operands) and re.match(r"R\d", self.operands[at]) else None

    # Registers that are surely written: too few of them give false warnings, too many would hide true ones.
    def _written(self, operand):
        first = int(REGISTER.match(operand).group(1))
        wide = self.name == "CS2R" and ".32" not in self.op or ".WIDE" in self.op or ".64" in self.op
        return set(range(first, first + (4 if ".128" in self.op else 2 if wide else 1)))

    # Registers that may be read: rather too many.
    def _read(self, operand, last):
        matrix = re.search(r"64x(\d+)x", self.op)
        count = 1
        if matrix:
            count = int(matrix.group(1)) // 2  # of a warpgroup's product
        elif "MMA" in self.name or (".128" in self.op and "[" not in operand):
            count = 4
        elif "64" in self.op and "[" not in operand or self.name in TWO_EACH or ".WIDE" in self.op and last:
            count = 2
        found = set()
        for m in REGISTER.finditer(operand):
            first = int(m.group(1))
            found |= set(range(first, first + max(count, 2 if m.group(2) else 1)))
        return found

    def ends(self):  # and nothing comes behind it
        return self.name in ("EXIT", "RET", "BRX", "JMX") and self.predicate is None

    def target(self):
        hit = re.search(r"0x([0-9a-f]+)$", self.text) if self.name in ("BRA", "JMP") else None
        return int(hit.group(1), 16) if hit else None

    def always_jumps(self):
        return self.target() is not None and not self.predicate and len(self.operands) == 1 and ".DIV" not in self.op


def functions(listing):
    """(architecture, name, [Instruction]) of what cuobjdump -sass prints."""
    architecture, name, code, first = 0, None, [], None
    for line in listing.splitlines():
        if "Function : " in line or "code for sm_" in line:
            if code:
                yield architecture, name, code
            code = []
            if "Function : " in line:
                name = line.split("Function : ")[1].strip()
            else:
                architecture = int(re.search(r"sm_(\d+)", line).group(1))
        elif m := LINE.match(line):
            first = m
        elif first and (m := SECOND.match(line)):
            code.append(Instruction(int(first.group(1), 16), first.group(2), int(m.group(1), 16)))
            first = None
    if code:
        yield architecture, name, code


def first_reads(code, start, limit):
    """[(cycles, reader)] for the instruction at `start`: on each path the first read, if nearer than `limit`."""
    at = {i.address: n for n, i in enumerate(code)}
    found, seen = [], set()
    # A place in the code, cycles so far, registers that still may hold the value, predicates under which one does not.
    todo = [(start + 1, code[start].wait, frozenset(code[start].writes), frozenset())]
    while todo:
        n, cycles, live, covered = todo.pop()
        if n >= len(code) or cycles >= limit or not live or (n, cycles, live, covered) in seen:
            continue
        seen.add((n, cycles, live, covered))
        i = code[n]
        if any(r in i.reads and (r, i.predicate) not in covered for r in live):
            found.append((cycles, i))
            continue
        if i.predicate is None:
            live = live - i.writes
        covered = frozenset((r, p) for r, p in covered if p.lstrip("!") not in i.sets)
        if i.predicate:
            covered |= {(r, i.predicate) for r in live & i.writes if i.predicate.lstrip("!") not in i.sets}
        cycles += i.wait
        if i.target() is not None:
            todo.append((at.get(i.target(), len(code)), cycles, live, covered))
        if not i.ends() and not i.always_jumps():
            todo.append((n + 1, cycles, live, covered))
    return found


def look(listing):
    """[(function, producer, cycles, needed, reader)] of early reads; the shortest distances by name; number of kernels."""
    early, shortest, count = [], {}, 0
    for architecture, function, code in functions(listing):
        count += 1
        for n, i in enumerate(code):
            if i.name not in WATCHED:
                continue
            needed = next(cycles for last, cycles in WATCHED[i.name] if architecture <= last)
            for cycles, reader in first_reads(code, n, FAR):
                shortest[i.name] = min(cycles, shortest.get(i.name, FAR))
                if cycles < needed:
                    early.append((function, i, cycles, needed, reader))
    return early, shortest, count


def files(paths):
    for path in paths:
        if os.path.isdir(path):
            for folder, _, names in os.walk(path):
                ours = (n for n in names if n.endswith((".cubin", ".cu.o")) and "CompilerId" not in folder)
                yield from sorted(os.path.join(folder, n) for n in ours)
        else:
            yield path


def listing_of(tool, path):
    run = subprocess.run([tool, "-sass", path], capture_output=True, text=True)
    if run.returncode or "Function : " not in run.stdout:
        why = run.stderr.strip() or "cuobjdump shows none"
        print(f"sass_hazards: {path}: no machine code ({why})", file=sys.stderr)
    return run.stdout


def check_files(paths, show_shortest):
    tool = shutil.which("cuobjdump")
    if not tool:
        print("sass_hazards: cuobjdump is not in PATH; the CUDA toolkit has it (cuda-cuobjdump)", file=sys.stderr)
        return 2
    kernels, found, all_shortest = 0, 0, {}
    for path in files(paths):
        early, shortest, count = look(listing_of(tool, path))
        kernels, found = kernels + count, found + len(early)
        for name, cycles in shortest.items():
            all_shortest[name] = min(cycles, all_shortest.get(name, FAR))
        for function, i, cycles, needed, reader in early:
            print(f"{path}: {function}\n  {i.address:#06x} {i.text}\n  {reader.address:#06x} {reader.text}\n"
                  f"  {cycles} cycles behind it, {needed} are needed")
    if not kernels:
        print(f"sass_hazards: no machine code under {' '.join(paths)}", file=sys.stderr)
        return 2
    if show_shortest:
        for name, cycles in sorted(all_shortest.items()):
            print(f"{name}: read {cycles} cycles behind it at the nearest")
    print(f"{kernels} kernels, {found} early reads")
    return 1 if found else 0


# ---- self-check -----------------------------------------------------------------------------------------------------

def line_of(address, wait, text):
    return (f"        /*{address:04x}*/                   {text} ;   /* 0x0000000000000000 */\n"
            f"                                               /* {wait << 41:#018x} */\n")


def self_check():
    cases = {
        # what ptxas 13.0.88 made of the kernel that failed: the fault this was written for
        "a predicated write does not hide the zero": (1, [(2, "CS2R R52, SRZ"), (3, "@P3 IMAD.WIDE R52, R58, UR9, RZ"),
                                                          (4, "IADD3 R52, P3, R61, R52, RZ"), (1, "EXIT")]),
        "seven cycles are enough": (0, [(2, "CS2R R52, SRZ"), (5, "@P3 IMAD.WIDE R52, R58, UR9, RZ"),
                                        (4, "IADD3 R52, P3, R61, R52, RZ"), (1, "EXIT")]),
        "a sure write ends it": (0, [(2, "CS2R R52, SRZ"), (3, "IMAD.WIDE R52, R58, UR9, RZ"),
                                     (4, "IADD3 R52, P3, R61, R52, RZ"), (1, "EXIT")]),
        "half a write does not": (1, [(2, "CS2R R52, SRZ"), (2, "MOV R52, R1"), (4, "FADD R1, R2, R53"), (1, "EXIT")]),
        "the same predicate reads what it wrote": (0, [(2, "CS2R R4, SRZ"), (1, "@!P0 MOV R4, R9"),
                                                       (1, "@!P0 FADD R1, R2, R4"), (9, "@!P0 MOV R5, R9"), (1, "EXIT")]),
        "unless it has changed": (1, [(1, "CS2R R4, SRZ"), (1, "@P0 MOV R4, R9"), (1, "ISETP.NE.AND P0, PT, R7, 0x1, PT"),
                                      (1, "@P0 FADD R1, R2, R4"), (1, "EXIT")]),
        "a wide operand has two registers": (1, [(2, "CS2R R4, SRZ"), (1, "LDG.E R8, desc[UR4][R4.64]"), (1, "EXIT")]),
        "of a store, too": (1, [(2, "CS2R R6, SRZ"), (1, "STG.E.128 desc[UR4][R2.64], R4"), (1, "EXIT")]),
        "R5 is not R50, nor RZ": (0, [(2, "CS2R R4, SRZ"), (1, "IADD3 R1, R50, R40, RZ"), (9, "NOP"), (1, "EXIT")]),
        "both ways at a branch": (1, [(1, "CS2R R4, SRZ"), (1, "@P0 BRA 0x40"), (9, "NOP"), (1, "EXIT"),
                                      (1, "FADD R1, R2, R5"), (1, "EXIT")]),
        "one way at a jump": (0, [(1, "CS2R R4, SRZ"), (1, "BRA 0x30"), (1, "FADD R1, R2, R5"), (9, "NOP"), (1, "EXIT")]),
        "around a loop": (1, [(1, "FADD R1, R2, R5"), (1, "CS2R R4, SRZ"), (1, "@P0 BRA 0x0"), (9, "NOP"), (1, "EXIT")]),
        "a shuffle's predicate is not its result": (0, [(1, "CS2R R4, SRZ"), (1, "SHFL.BFLY PT, R4, R8, 0x1, 0x1f"),
                                                        (5, "FADD R1, R2, R4"), (9, "NOP"), (1, "EXIT")]),
        "a product reads all its sums": (1, [(1, "CS2R R30, SRZ"), (1, "HGMMA.64x192x16.F32.BF16 R24, gdesc[UR4], R24"),
                                             (1, "EXIT")]),
    }
    wrong = 0
    for name, (expected, code) in cases.items():
        lines = (line_of(16 * n, wait, text) for n, (wait, text) in enumerate(code))
        listing = "code for sm_90\nFunction : f\n" + "".join(lines)
        early, _, count = look(listing)
        if count != 1 or len(early) != expected:
            wrong += 1
            print(f"sass_hazards: {name}: {len(early)} early reads, expected {expected}", file=sys.stderr)
    print(f"{len(cases)} cases, {wrong} wrong")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", metavar="PATH")
    parser.add_argument("--shortest", action="store_true")
    parser.add_argument("--self-check", action="store_true")
    options = parser.parse_args()
    if options.self_check:
        return self_check()
    if not options.paths:
        parser.error("which cubins, object files or folders?")
    return check_files(options.paths, options.shortest)


if __name__ == "__main__":
    sys.exit(main())
