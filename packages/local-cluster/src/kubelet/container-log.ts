import { createReadStream, existsSync, mkdirSync } from 'node:fs';
import { open, readFile, rename, rm, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { EventEmitter, once } from 'node:events';
import type { Logger } from '@conversation-operator/base/logger';
import type { PodLogOptions } from '../api/pod-logs.ts';

/** Returns for each file the offset at which its part of the last `lines` lines starts. */
async function startsOfTail(
  files: readonly string[],
  lines = Infinity,
): Promise<readonly number[]> {
  let missing = lines;
  const starts: number[] = [];
  for (const file of files.toReversed()) {
    const content = await readFile(file);
    let start = content.length;
    // The search starts before the newline that ends the line to be found.
    for (; missing > 0 && start > 0; missing -= 1)
      start = start < 2 ? 0 : content.lastIndexOf(0x0a, start - 2) + 1;
    starts.unshift(start);
  }
  return starts;
}

const older = (path: string): string => `${path}.1`;

/**
 * The log of one container. Every run starts a new file, and the file of the previous run stays
 * readable. A file that has reached `maxBytes` is rotated, and the part that was rotated before is
 * dropped. When the disk rejects writes, lines are lost and the container continues.
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
  #rotations = 0;
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

  /** Keeps the log of the last run as the previous one, and starts a new log. */
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
      // If a rotation could not open the next file, no file is open.
      this.#file ??= await open(this.#path, 'a', 0o600);
      if (this.#size > 0 && this.#size + chunk.byteLength > this.#maxBytes) {
        await this.#file.close();
        this.#file = undefined;
        await rename(this.#path, older(this.#path));
        this.#rotations += 1;
        this.#file = await open(this.#path, 'a', 0o600);
        this.#size = 0;
      }
      await this.#file.appendFile(chunk);
      this.#size += chunk.byteLength;
    });
  }

  /** Ends the log of the run, and with it every read with `follow`. */
  end(): Promise<void> {
    return this.#inTurn(async () => {
      this.#running = false;
      const file = this.#file;
      this.#file = undefined;
      await file?.close();
    });
  }

  /** Returns the log of the current or previous run, if any. */
  open(options: PodLogOptions): AsyncIterable<Uint8Array> | undefined {
    const path = options.previous ? this.#previousPath : this.#path;
    return existsSync(path) || existsSync(older(path)) ? this.#read(path, options) : undefined;
  }

  async *#read(
    path: string,
    { follow, tailLines, previous, signal }: PodLogOptions,
  ): AsyncIterable<Uint8Array> {
    const files = [older(path), path].filter((part) => existsSync(part));
    const starts = await startsOfTail(files, tailLines);
    for (const [index, part] of files.entries()) {
      const start = starts[index] ?? 0;
      if (follow && !previous && part === path) yield* this.#follow(start, signal);
      else if (!signal.aborted)
        yield* createReadStream(part, { start }) as AsyncIterable<Uint8Array>;
    }
  }

  /** Reads until the run ends, or, as in Kubernetes, until the file is rotated. */
  async *#follow(start: number, signal: AbortSignal): AsyncIterable<Uint8Array> {
    const rotations = this.#rotations;
    const buffer = Buffer.alloc(64 * 1024);
    await using file = await open(this.#path, 'r');
    for (let position = start; !signal.aborted;) {
      // `isOver` and `version` are read before the file, so that no later write is missed.
      const isOver = !this.#running || this.#rotations !== rotations;
      const version = this.#version;
      const { bytesRead } = await file.read(buffer, 0, buffer.length, position);
      if (bytesRead > 0) {
        position += bytesRead;
        yield Uint8Array.from(buffer.subarray(0, bytesRead));
        continue;
      }
      if (isOver) return;
      if (version === this.#version)
        await once(this.#changes, 'change', { signal }).catch(() => undefined);
    }
  }

  /** Runs writes one after the other. Logs a failure only if the write before it has succeeded. */
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

async function moved(from: string, to: string): Promise<void> {
  if (existsSync(from)) await rename(from, to);
}
