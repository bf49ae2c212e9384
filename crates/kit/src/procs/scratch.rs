//! Scratch memory: the heap of a supervisor until its command ends.
//!
//! Each page of the C library's heap that a supervisor writes to becomes a copy of its own. What it needs to start its
//! command comes from a region apart instead, which begins anew whenever nothing in it is in use, and is discarded up
//! to its first page once the command runs.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

use super::stack::page_size;

/// The size of the region, in bytes. Larger requests come from the C library.
const SIZE: usize = 256 << 10;

/// The region of this process; none but in a zygote and its forks.
static REGION: AtomicPtr<Region> = AtomicPtr::new(ptr::null_mut());

/// The beginning of the region.
struct Region {
    /// Bytes in use, these included.
    used: Cell<usize>,
    /// Blocks in use.
    blocks: Cell<usize>,
    is_closed: Cell<bool>,
}

/// The allocator of haft's program: the C library's, in front of which supervisors have a region of their own.
#[derive(Debug)]
pub struct Allocator;

#[expect(unsafe_code, reason = "an allocator")]
impl Region {
    /// Returns the region of this process.
    fn own() -> Option<&'static Self> {
        // SAFETY: a region is never unmapped, and the process that has one has one thread.
        unsafe { REGION.load(Ordering::Relaxed).as_ref() }
    }

    fn allocate(&self, layout: Layout) -> Option<*mut u8> {
        if self.is_closed.get() {
            return None;
        }
        let at = self.used.get().checked_next_multiple_of(layout.align())?;
        let end = at.checked_add(layout.size()).filter(|it| *it <= SIZE)?;
        self.used.set(end);
        self.blocks.set(self.blocks.get() + 1);
        Some(REGION.load(Ordering::Relaxed).cast::<u8>().wrapping_add(at))
    }

    /// Returns whether the block was in this region.
    fn free(&self, block: *mut u8) -> bool {
        if block.addr().wrapping_sub(ptr::from_ref(self).addr()) >= SIZE {
            return false;
        }
        self.blocks.set(self.blocks.get().saturating_sub(1));
        if self.blocks.get() == 0 {
            self.used.set(size_of::<Self>());
        }
        true
    }
}

// SAFETY: each block is the system allocator's, or a part of the region that no other block in use has: the region is
// mapped at a page, so that an offset is aligned as its address is.
#[expect(unsafe_code, reason = "an allocator")]
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        Region::own().and_then(|it| it.allocate(layout)).unwrap_or_else(|| unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(block) = Region::own().and_then(|it| it.allocate(layout)) else {
            // SAFETY: the caller's promise.
            return unsafe { System.alloc_zeroed(layout) };
        };
        // SAFETY: the block has this size. An earlier one may have been there.
        unsafe { block.write_bytes(0, layout.size()) };
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if !Region::own().is_some_and(|it| it.free(block)) {
            // SAFETY: the block is the system allocator's.
            unsafe { System.dealloc(block, layout) };
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if Region::own().is_none() {
            // SAFETY: the block is the system allocator's.
            return unsafe { System.realloc(block, layout, size) };
        }
        // SAFETY: the caller promises that this size is one of a layout with the same alignment.
        let new = unsafe { self.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
        if !new.is_null() {
            // SAFETY: both blocks have so many bytes, and they are apart.
            unsafe {
                ptr::copy_nonoverlapping(block, new, layout.size().min(size));
                self.dealloc(block, layout);
            }
        }
        new
    }
}

/// Opens the region, for this process and its forks. It must have one thread.
#[expect(unsafe_code, reason = "memory from the kernel")]
pub(super) fn open() {
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    // SAFETY: the mapping is new, so nothing else uses its memory.
    let start = unsafe { libc::mmap(ptr::null_mut(), SIZE, access, kind, -1, 0) };
    if start == libc::MAP_FAILED {
        // The C library's heap does as well.
        return;
    }
    let region =
        Region { used: Cell::new(size_of::<Region>()), blocks: Cell::new(0), is_closed: Cell::new(false) };
    // SAFETY: the mapping is larger, and begins at a page.
    unsafe { start.cast::<Region>().write(region) };
    REGION.store(start.cast(), Ordering::Relaxed);
}

/// Has everything further come from the C library, for work that needs much memory.
pub(super) fn close() {
    if let Some(region) = Region::own() {
        region.is_closed.set(true);
    }
}

/// Discards the part that is not in use.
#[expect(unsafe_code, reason = "memory from the kernel")]
pub(super) fn discard_unused() {
    let Some(region) = Region::own() else { return };
    let from = region.used.get().next_multiple_of(page_size());
    let start = ptr::from_ref(region).cast_mut().wrapping_byte_add(from);
    // SAFETY: nothing beyond this offset is in use.
    unsafe { libc::madvise(start.cast(), SIZE - from, libc::MADV_DONTNEED) };
}
