/** Runs one read at a time. A call during a read causes one more read afterwards. */
export class Refresher {
  readonly #read: () => Promise<void>;
  #running: Promise<void> | undefined;
  #isAskedAgain = false;

  /** `read` must never reject. */
  constructor(read: () => Promise<void>) {
    this.#read = read;
  }

  run(): Promise<void> {
    this.#isAskedAgain = this.#running !== undefined;
    this.#running ??= this.#read().finally(() => {
      this.#running = undefined;
      if (this.#isAskedAgain) void this.run();
    });
    return this.#running;
  }
}

/** The `page_id` of the next page, from the Link header of a response. */
export function nextPageOf(link: string | null): string | undefined {
  const [, url = ''] = /<([^>]*)>\s*;\s*rel="next"/.exec(link ?? '') ?? [];
  return URL.canParse(url) ? (new URL(url).searchParams.get('page_id') ?? undefined) : undefined;
}
