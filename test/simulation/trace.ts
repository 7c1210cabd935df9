import { inspect } from 'node:util';
import { crc32 } from 'node:zlib';
import type { Clock } from '@conversation-operator/base/clock';
import type { LogFields, Logger, LogLevel } from '@conversation-operator/base/logger';

/** The history of a run as a hash; its lines are kept only for a reader. */
export class Trace {
  readonly #clock: Clock;
  readonly #keep: number;
  #hash = 0;
  readonly #lines: string[] = [];

  /** `keep`: how many of the last lines are kept. */
  constructor(clock: Clock, keep: number) {
    this.#clock = clock;
    this.#keep = keep;
  }

  get kept(): boolean {
    return this.#keep > 0;
  }

  note(text: string): void {
    const line = `${this.#clock.monotonic().toFixed(3).padStart(12)} ${text}`;
    this.#hash = crc32(line, this.#hash);
    this.say(line);
  }

  /** Only for the reader: no part of the hash. */
  say(line: string): void {
    if (this.#keep === 0) return;
    this.#lines.push(line);
    if (this.#lines.length > 2 * this.#keep) this.#lines.splice(0, this.#lines.length - this.#keep);
  }

  get lines(): readonly string[] {
    return this.#lines.slice(-this.#keep);
  }

  digest(): string {
    return this.#hash.toString(16).padStart(8, '0');
  }

  logger(name: string, fields: LogFields = {}): Logger {
    const write = (level: LogLevel) => (message: string, more?: LogFields) => {
      if (!this.kept) return;
      const all = Object.entries({ ...fields, ...more }).map(
        ([key, value]) => `${key}=${shown(value)}`,
      );
      this.say(
        `${this.#clock.monotonic().toFixed(3).padStart(12)} ${name} ${level}: ${message} ${all.join(' ')}`,
      );
    };
    return {
      error: write('error'),
      warn: write('warn'),
      info: write('info'),
      debug: write('debug'),
      enabled: () => this.kept,
      child: (child) => this.logger(name, { ...fields, ...child }),
    };
  }
}

const shown = (value: unknown): string =>
  value instanceof Error
    ? `${value.name}(${value.message})`
    : inspect(value, { breakLength: Infinity, depth: 2 });
