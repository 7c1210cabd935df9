import { request } from 'node:http';
import type { FailedRead } from './failed-reads.ts';

/** Errors of Node are of another realm than the tests, so that `instanceof` does not know them. */
const codeOf = (error: unknown): string =>
  typeof error === 'object' && error !== null && 'code' in error
    ? String(error.code)
    : String(error);

/** Reads again and again, each time over a new connection, and records the failures. */
export class ReadWatch {
  readonly #url: string;
  readonly #key: string;
  readonly #failures: FailedRead[] = [];
  #answers = 0;
  #slowestMs = 0;
  #closed = false;
  readonly #ended: Promise<void>;

  constructor({ url, key }: { readonly url: string; readonly key: string }) {
    this.#url = `${url}/api/v1/app-conversations/search?limit=5`;
    this.#key = key;
    this.#ended = this.#work();
  }

  get answers(): number {
    return this.#answers;
  }

  get slowestMs(): number {
    return this.#slowestMs;
  }

  /** The reads other than an answer 200 within 5 s. */
  get failures(): readonly FailedRead[] {
    return this.#failures;
  }

  async stop(): Promise<void> {
    this.#closed = true;
    await this.#ended;
  }

  async #work(): Promise<void> {
    while (!this.#closed) {
      const begun = performance.now();
      const fromMs = Date.now();
      const outcome = await this.#read().then(String, codeOf);
      if (outcome === '200') this.#answers++;
      else this.#failures.push({ fromMs, untilMs: Date.now(), outcome });
      this.#slowestMs = Math.max(this.#slowestMs, performance.now() - begun);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  #read(): Promise<number> {
    return new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${this.#key}` };
      request(
        this.#url,
        { agent: false, headers, signal: AbortSignal.timeout(30_000) },
        (response) => {
          response.on('error', reject).on('end', () => resolve(response.statusCode ?? 0));
          response.resume();
        },
      )
        .on('error', reject)
        .end();
    });
  }
}
