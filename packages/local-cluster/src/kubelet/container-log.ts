import { createReadStream, existsSync, mkdirSync } from 'node:fs';
import { open, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { EventEmitter, once } from 'node:events';
import type { Logger } from '@conversation-operator/base/logger';

/**
 * Returns the offset in each file at which the last `lines` lines start; undefined for files that
 * contain none of these lines.
 */
async function startsOfTail(
  files: readonly string[],
  lines: number | undefined,
): Promise<readonly (number | undefined)[]> {
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

/** Reads backwards, so that the cost depends on the tail and not on the length of the file. */
async function startOfTail(
  path: string,
  lines: number,
): Promise<{ readonly start: number; readonly found: number }> {
  const file = await open(path, 'r');
  try {
    const { size } = await file.stat();
    const block = Buffer.alloc(64 * 1024);
    let found = 0;
    for (let end = size; end > 0;) {
      const from = Math.max(0, end - block.length);
      const { bytesRead } = await file.read(block, 0, end - from, from);
      for (let at = bytesRead - 1; at >= 0; at -= 1) {
        // A newline at the end of the file ends the last line and starts no other.
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

/** Returns the path of the rotated part of a log. */
const older = (path: string): string => `${path}.1`;

/**
 * The log of one container. Every run starts a new file, and the file of the previous run remains
 * readable. A file that has reached `maxBytes` is rotated, and the older rotated part is dropped.
 * When the disk rejects writes, lines are lost and the container continues.
 */
export class ContainerLog {
  readonly #path: string;
  readonly #previousPath: string;
  readonly #maxBytes: number;
  readonly #logger: Logger;
  readonly #changes = new EventEmitter().setMaxListeners(0);
  #file: FileHandle | undefined;
  /** True between `begin` and `end`, even while a rotation has no open file. */
  #running = false;
  #size = 0;
  #version = 0;
  #last: Promise<void> = Promise.resolve();
  #failing = false;

  constructor(options: {
    readonly path: string;
    readonly maxBytes: number;
    readonly logger: Logger;
  }) {
    this.#path = options.path;
    this.#previousPath = options.path.replace(/\.log$/, '.previous.log');
    this.#maxBytes = options.maxBytes;
    this.#logger = options.logger;
    mkdirSync(dirname(options.path), { recursive: true, mode: 0o700 });
  }

  /** Moves the log of the current run aside and starts a new one. */
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
      // A rotation that could not open the next file has closed this one.
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

  /** Ends the log of the run, and with it the reads of followers. */
  end(): Promise<void> {
    return this.#inTurn(async () => {
      this.#running = false;
      const file = this.#file;
      this.#file = undefined;
      await file?.close();
    });
  }

  /** Returns the log of the current or previous run; undefined when there is no such run. */
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
    {
      follow,
      tailLines,
      previous,
      signal,
    }: { follow: boolean; tailLines?: number; previous: boolean; signal: AbortSignal },
  ): AsyncIterable<Uint8Array> {
    const files = [older(path), path].filter((part) => existsSync(part));
    const starts = await startsOfTail(files, tailLines);
    if (!follow || previous) {
      for (const [index, part] of files.entries()) {
        const start = starts[index];
        if (start !== undefined && !signal.aborted)
          yield* createReadStream(part, { start }) as AsyncIterable<Uint8Array>;
      }
      return;
    }
    yield* this.#follow(path, files[0] ?? path, await startsByInode(files, starts), signal);
  }

  async *#follow(
    path: string,
    first: string,
    starts: ReadonlyMap<number, number>,
    signal: AbortSignal,
  ): AsyncIterable<Uint8Array> {
    const buffer = Buffer.alloc(64 * 1024);
    let file = await open(first, 'r');
    try {
      let inode = (await file.stat()).ino;
      let position = starts.get(inode) ?? 0;
      while (!signal.aborted) {
        // Both values are read before the file, so that the next iteration reads everything that is
        // written later.
        const running = this.#running;
        const version = this.#version;
        const current = await inodeOf(path);
        const { bytesRead } = await file.read(buffer, 0, buffer.length, position);
        if (bytesRead > 0) {
          position += bytesRead;
          yield Uint8Array.from(buffer.subarray(0, bytesRead));
          continue;
        }
        // A rotated file that was read to its end receives no more data.
        const next = current === inode ? undefined : await successor(path, inode);
        if (next !== undefined) {
          await file.close();
          file = next;
          inode = (await file.stat()).ino;
          position = starts.get(inode) ?? 0;
          continue;
        }
        if (!running) return;
        if (version === this.#version)
          await once(this.#changes, 'change', { signal }).catch(() => undefined);
      }
    } finally {
      await file.close();
    }
  }

  /**
   * Runs one write after the other. A failure is logged once, and again only after a successful
   * write.
   */
  #inTurn(task: () => Promise<void>): Promise<void> {
    this.#last = this.#last.then(task).then(
      () => {
        this.#failing = false;
        this.#version += 1;
        this.#changes.emit('change');
      },
      (error: unknown) => {
        if (!this.#failing)
          this.#logger.warn('A container log could not be written', { error, path: this.#path });
        this.#failing = true;
      },
    );
    return this.#last;
  }
}

const inodeOf = (path: string): Promise<number | undefined> =>
  stat(path).then(
    ({ ino }) => ino,
    () => undefined,
  );

async function startsByInode(
  files: readonly string[],
  starts: readonly (number | undefined)[],
): Promise<ReadonlyMap<number, number>> {
  const entries = await Promise.all(
    files.map(async (file, index): Promise<[number, number]> => {
      const { ino, size } = await stat(file);
      return [ino, starts[index] ?? size];
    }),
  );
  return new Map(entries);
}

/** Opens the successor of a file that is no longer at `path`; undefined during a rotation. */
async function successor(path: string, inode: number): Promise<FileHandle | undefined> {
  const opened = (file: string) => open(file, 'r').catch(() => undefined);
  // The files are opened in this order, because a rotation in between moves the newer file to the
  // path that is opened second.
  const newer = await opened(path);
  const aside = await opened(older(path));
  if (aside !== undefined && (await aside.stat()).ino !== inode) {
    // Two rotations have happened: the followed file was dropped, and this file came directly after
    // it.
    await newer?.close();
    return aside;
  }
  await aside?.close();
  return newer;
}

async function moved(from: string, to: string): Promise<void> {
  if (existsSync(from)) await rename(from, to);
}
