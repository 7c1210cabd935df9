import { createReadStream, existsSync, mkdirSync } from 'node:fs';
import { open, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { EventEmitter, once } from 'node:events';
import type { Logger } from '../../observability/logger.ts';

/** A log's file and the older part that rotation has made of it. */
const older = (path: string): string => `${path}.1`;

/**
 * What one container prints. Every run begins a new file, and the run before stays readable; a file that has grown to `maxBytes` is
 * moved aside and replaced, the one moved before is dropped. A disk that refuses writes costs lines, never a container.
 */
export class ContainerLog {
  readonly #path: string;
  readonly #previousPath: string;
  readonly #maxBytes: number;
  readonly #logger: Logger;
  readonly #changes = new EventEmitter().setMaxListeners(0);
  #file: FileHandle | undefined;
  /** Between `begin` and `end`, also while a rotation has no file open. */
  #running = false;
  #size = 0;
  #version = 0;
  #last: Promise<void> = Promise.resolve();
  #failing = false;

  constructor(options: { readonly path: string; readonly maxBytes: number; readonly logger: Logger }) {
    this.#path = options.path;
    this.#previousPath = options.path.replace(/\.log$/, '.previous.log');
    this.#maxBytes = options.maxBytes;
    this.#logger = options.logger;
    mkdirSync(dirname(options.path), { recursive: true, mode: 0o700 });
  }

  /** Moves the present run's log aside and begins another. */
  begin(): Promise<void> {
    return this.#inTurn(async () => {
      await rm(older(this.#previousPath), { force: true });
      await moved(this.#path, this.#previousPath);
      await moved(older(this.#path), older(this.#previousPath));
      this.#file = await open(this.#path, 'a', 0o600);
      this.#size = 0;
      this.#running = true;
    });
  }

  write(chunk: Uint8Array): Promise<void> {
    return this.#inTurn(async () => {
      if (!this.#running) return;
      // Closed by a rotation that could not open the next one.
      this.#file ??= await open(this.#path, 'a', 0o600);
      if (this.#size > 0 && this.#size + chunk.byteLength > this.#maxBytes) {
        await this.#file.close();
        this.#file = undefined;
        await rename(this.#path, older(this.#path));
        this.#file = await open(this.#path, 'a', 0o600);
        this.#size = 0;
      }
      await this.#file.appendFile(chunk);
      this.#size += chunk.byteLength;
    });
  }

  /** The run is over: followers come to their end. */
  end(): Promise<void> {
    return this.#inTurn(async () => {
      this.#running = false;
      const file = this.#file;
      this.#file = undefined;
      await file?.close();
    });
  }

  /** Undefined when there is no such run. */
  open(options: {
    readonly follow: boolean;
    readonly tailLines?: number;
    readonly previous: boolean;
    readonly signal: AbortSignal;
  }): AsyncIterable<Uint8Array> | undefined {
    const path = options.previous ? this.#previousPath : this.#path;
    return existsSync(path) || existsSync(older(path)) ? this.#read(path, options) : undefined;
  }

  async *#read(
    path: string,
    { follow, tailLines, previous, signal }: { follow: boolean; tailLines?: number; previous: boolean; signal: AbortSignal },
  ): AsyncIterable<Uint8Array> {
    const files = [older(path), path].filter((part) => existsSync(part));
    const starts = await startsOfTail(files, tailLines);
    if (!follow || previous) {
      for (const [index, part] of files.entries()) {
        const start = starts[index];
        if (start !== undefined && !signal.aborted) yield* createReadStream(part, { start }) as AsyncIterable<Uint8Array>;
      }
      return;
    }
    let file: FileHandle | undefined;
    let next = 0;
    let position = starts[0] ?? (await stat(files[0] ?? path)).size;
    try {
      file = await open(files[0] ?? path, 'r');
      let inode = (await file.stat()).ino;
      const buffer = Buffer.alloc(64 * 1024);
      while (!signal.aborted) {
        // Asked before reading: what is written after this is still read in the next round.
        const running = this.#running;
        const version = this.#version;
        const { bytesRead } = await file.read(buffer, 0, buffer.length, position);
        if (bytesRead > 0) {
          position += bytesRead;
          yield Uint8Array.from(buffer.subarray(0, bytesRead));
          continue;
        }
        const current = await stat(path).catch(() => undefined);
        if (current !== undefined && current.ino !== inode) {
          await file.close();
          file = await open(path, 'r');
          inode = (await file.stat()).ino;
          next += 1;
          position = next === 1 && files.length === 2 ? (starts[1] ?? current.size) : 0;
          continue;
        }
        if (!running) return;
        if (version === this.#version) await once(this.#changes, 'change', { signal }).catch(() => undefined);
      }
    } finally {
      await file?.close();
    }
  }

  /** One write after the other; a failure is told once and forgotten when writing works again. */
  #inTurn(task: () => Promise<void>): Promise<void> {
    this.#last = this.#last.then(task).then(
      () => {
        this.#failing = false;
        this.#version += 1;
        this.#changes.emit('change');
      },
      (error: unknown) => {
        if (!this.#failing) this.#logger.warn('A container log could not be written', { error, path: this.#path });
        this.#failing = true;
      },
    );
    return this.#last;
  }
}

async function moved(from: string, to: string): Promise<void> {
  if (existsSync(from)) await rename(from, to);
}

/** Where in each file the last `lines` lines begin; undefined for files that hold none of them. */
async function startsOfTail(files: readonly string[], lines: number | undefined): Promise<readonly (number | undefined)[]> {
  if (lines === undefined) return files.map(() => 0);
  const starts: (number | undefined)[] = files.map(() => undefined);
  let missing = lines;
  for (let index = files.length - 1; index >= 0 && missing > 0; index -= 1) {
    const { start, found } = await startOfTail(files[index] ?? '', missing);
    starts[index] = start;
    missing -= found;
  }
  return starts;
}

/** Reads backwards, so that a long file costs no more than its tail. */
async function startOfTail(path: string, lines: number): Promise<{ readonly start: number; readonly found: number }> {
  const file = await open(path, 'r');
  try {
    const { size } = await file.stat();
    const block = Buffer.alloc(64 * 1024);
    let found = 0;
    for (let end = size; end > 0;) {
      const from = Math.max(0, end - block.length);
      const { bytesRead } = await file.read(block, 0, end - from, from);
      for (let at = bytesRead - 1; at >= 0; at -= 1) {
        // The newline at the very end closes the last line; it begins none.
        if (block[at] !== 0x0a || from + at === size - 1) continue;
        found += 1;
        if (found === lines) return { start: from + at + 1, found };
      }
      end = from;
    }
    return { start: 0, found: size > 0 ? found + 1 : 0 };
  } finally {
    await file.close();
  }
}
