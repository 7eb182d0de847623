//! What one instruction does, as far as its costs go.

use anyhow::{Result, ensure};
use iced_x86::{
    Code, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, MemorySize, Mnemonic, OpAccess, OpKind,
    Register, UsedMemory,
};
use libc::user_regs_struct;

/// No instruction is longer.
pub(crate) const LONGEST: usize = 15;

/// An instruction.
#[derive(Clone, Debug)]
pub(crate) struct Decoded {
    pub(crate) kind: Kind,
    instruction: Instruction,
    memory: Vec<Access>,
}

/// What is special about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    /// Changes memory in one step that no other core can come between.
    ReadModifyWrite,
    SystemCall,
    /// Reads the time stamp counter.
    Counter,
    Breakpoint,
}

/// How it writes, where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It does not.
    Read,
    Write,
    /// Only if it finds what it expects.
    CompareExchange,
    Exchange,
    ReadModifyWrite,
}

/// An operand, explicit or not, in memory.
#[derive(Clone, Debug)]
struct Access {
    place: UsedMemory,
    writes: bool,
}

/// Some bytes that an instruction reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touched {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    /// Or may write: an exchange that fails has the line to itself all the same.
    pub(crate) writes: bool,
}

impl Decoded {
    /// Decodes what stands at the beginning of `code`, which lies at `address`.
    pub(crate) fn new(code: &[u8], address: u64) -> Result<Self> {
        let instruction = Decoder::with_ip(64, code, address, DecoderOptions::NONE).decode();
        ensure!(instruction.code() != Code::INVALID, "at {address:#x} there is no instruction: {code:02x?}");
        let mut factory = InstructionInfoFactory::new();
        let touches = |memory: &&UsedMemory| !matches!(memory.access(), OpAccess::None | OpAccess::NoMemAccess);
        let access = |memory: &UsedMemory| Access {
            place: *memory,
            writes: !matches!(memory.access(), OpAccess::Read | OpAccess::CondRead),
        };
        let memory: Vec<_> = factory.info(&instruction).used_memory().iter().filter(touches).map(access).collect();
        Ok(Self { kind: kind_of(&instruction), instruction, memory })
    }

    /// The bytes that it touches if it is executed with these registers.
    pub(crate) fn touched(&self, registers: &user_regs_struct) -> Result<Vec<Touched>> {
        let one = |access: &Access| {
            let address = access.place.virtual_address(0, |register, _, _| value(register, registers));
            ensure!(address.is_some(), "which memory is touched can't be told of: {}", self.describe());
            let bytes = match access.place.memory_size() {
                MemorySize::Unknown => 1,
                size => size.size() as u64,
            };
            Ok(Touched { address: address.unwrap_or_default(), bytes, writes: access.writes })
        };
        self.memory.iter().map(one).collect()
    }

    /// How it writes to those that it writes to.
    pub(crate) fn manner(&self) -> Manner {
        match (self.kind, self.instruction.mnemonic()) {
            (Kind::ReadModifyWrite, Mnemonic::Cmpxchg | Mnemonic::Cmpxchg8b | Mnemonic::Cmpxchg16b) => {
                Manner::CompareExchange
            }
            (Kind::ReadModifyWrite, Mnemonic::Xchg) => Manner::Exchange,
            (Kind::ReadModifyWrite, _) => Manner::ReadModifyWrite,
            _ => Manner::Write,
        }
    }

    pub(crate) fn describe(&self) -> String {
        format!("{:?} at {:#x}", self.instruction.code(), self.instruction.ip())
    }
}

fn kind_of(instruction: &Instruction) -> Kind {
    let in_memory = (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    match instruction.mnemonic() {
        // An exchange with memory is locked without a prefix.
        Mnemonic::Xchg if in_memory => Kind::ReadModifyWrite,
        _ if instruction.has_lock_prefix() => Kind::ReadModifyWrite,
        Mnemonic::Syscall => Kind::SystemCall,
        Mnemonic::Rdtsc | Mnemonic::Rdtscp => Kind::Counter,
        Mnemonic::Int3 => Kind::Breakpoint,
        _ => Kind::Plain,
    }
}

fn value(register: Register, registers: &user_regs_struct) -> Option<u64> {
    let full = match register.full_register() {
        Register::RAX => registers.rax,
        Register::RBX => registers.rbx,
        Register::RCX => registers.rcx,
        Register::RDX => registers.rdx,
        Register::RSI => registers.rsi,
        Register::RDI => registers.rdi,
        Register::RBP => registers.rbp,
        Register::RSP => registers.rsp,
        Register::R8 => registers.r8,
        Register::R9 => registers.r9,
        Register::R10 => registers.r10,
        Register::R11 => registers.r11,
        Register::R12 => registers.r12,
        Register::R13 => registers.r13,
        Register::R14 => registers.r14,
        Register::R15 => registers.r15,
        Register::FS => registers.fs_base,
        Register::GS => registers.gs_base,
        Register::CS | Register::DS | Register::ES | Register::SS => 0,
        // A vector register: a gather or a scatter.
        _ => return None,
    };
    Some(if register.is_gpr32() { full & u64::from(u32::MAX) } else { full })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers() -> user_regs_struct {
        // SAFETY: plain numbers.
        let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
        (registers.rdi, registers.rsp, registers.rsi, registers.fs_base) = (0x1000, 0x8000, 0x10, 0x7000);
        registers
    }

    /// Kind, and address, size and whether it writes of what it touches.
    fn decode(code: &[u8]) -> (Kind, Vec<(u64, u64, bool)>) {
        let decoded = Decoded::new(code, 0x40_0000).expect("an instruction");
        let touched = decoded.touched(&registers()).expect("addresses");
        (decoded.kind, touched.iter().map(|t| (t.address, t.bytes, t.writes)).collect())
    }

    #[test]
    fn read_modify_writes_are_those_with_a_lock_and_exchanges_with_memory() {
        // lock cmpxchg [rdi], rsi
        let exchange = decode(&[0xf0, 0x48, 0x0f, 0xb1, 0x37]);
        assert_eq!(exchange, (Kind::ReadModifyWrite, vec![(0x1000, 8, true)]));
        // xchg [rdi], rsi
        assert_eq!(decode(&[0x48, 0x87, 0x37]).0, Kind::ReadModifyWrite);
        // xchg rdi, rsi
        assert_eq!(decode(&[0x48, 0x87, 0xf7]), (Kind::Plain, vec![]));
        // add [rdi], rsi: not in one step
        assert_eq!(decode(&[0x48, 0x01, 0x37]), (Kind::Plain, vec![(0x1000, 8, true)]));
    }

    #[test]
    fn a_locked_compare_and_exchange_is_told_from_other_read_modify_writes() {
        let manner = |code: &[u8]| Decoded::new(code, 0).expect("an instruction").manner();
        assert_eq!(manner(&[0xf0, 0x48, 0x0f, 0xb1, 0x37]), Manner::CompareExchange);
        assert_eq!(manner(&[0x48, 0x87, 0x37]), Manner::Exchange);
        // lock xadd [rdi], rsi
        assert_eq!(manner(&[0xf0, 0x48, 0x0f, 0xc1, 0x37]), Manner::ReadModifyWrite);
        // cmpxchg [rdi], rsi without a lock; add [rdi], rsi
        assert_eq!(manner(&[0x48, 0x0f, 0xb1, 0x37]), Manner::Write);
        assert_eq!(manner(&[0x48, 0x01, 0x37]), Manner::Write);
    }

    #[test]
    fn addresses_are_those_of_the_registers() {
        // mov fs:[rdi + 2*rsi + 8], eax
        assert_eq!(decode(&[0x64, 0x89, 0x44, 0x77, 0x08]).1, [(0x8028, 4, true)]);
        // mov [rip + 0x100], eax, which is six bytes long
        assert_eq!(decode(&[0x89, 0x05, 0x00, 0x01, 0x00, 0x00]).1, [(0x40_0106, 4, true)]);
        // push rax
        assert_eq!(decode(&[0x50]).1, [(0x7ff8, 8, true)]);
        // mov rax, [rdi]
        assert_eq!(decode(&[0x48, 0x8b, 0x07]).1, [(0x1000, 8, false)]);
        // movaps [rdi + 16], xmm0
        assert_eq!(decode(&[0x0f, 0x29, 0x47, 0x10]).1, [(0x1010, 16, true)]);
        // lea rax, [rdi] and prefetcht0 [rdi] touch nothing
        assert_eq!(decode(&[0x48, 0x8d, 0x07]).1, []);
        assert_eq!(decode(&[0x0f, 0x18, 0x0f]).1, []);
    }

    #[test]
    fn what_is_no_instruction_is_an_error() {
        assert!(Decoded::new(&[0x06], 0).is_err());
    }
}
