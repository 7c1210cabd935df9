import { inspect } from 'node:util';
import type { Got, Sent, TwoOwners } from '../support/gateway/two-owners.ts';
import { leaksIn, withoutFields, type Secrets } from '../support/leaks.ts';

/** Length in base64 of a key that is made for a sandbox. */
const keyLength = 43;

/** Searches every answer for secrets, and at the end all else that the requests have made. */
export class LeakWatch {
  readonly leaks: string[] = [];
  /** Fields that have shown a secret to its owner: without them the search proves nothing. */
  readonly shown = new Set<string>();
  readonly #world: TwoOwners;
  readonly #issued: Record<string, string> = {};
  /** Keys of all sandboxes that have existed. */
  readonly #derived = new Set<string>();
  readonly #remove: () => void;

  constructor(world: TwoOwners) {
    this.#world = world;
    this.#remove = world.caches.sandboxes.addHandler({
      added: (sandbox) => world.derivedKeys(sandbox).forEach((key) => this.#derived.add(key)),
    });
  }

  readonly watch = ({ method, target }: Sent, { headers, body }: Got): void => {
    const text = body.toString();
    const issued = /"key":"(co_[^"]+)"/.exec(text)?.[1];
    if (issued !== undefined) {
      this.#issued[`key ${Object.keys(this.#issued).length}`] = issued;
      this.shown.add('key');
    }
    if (
      [...text.matchAll(/"session_api_key":"([^"]+)"/g)].some(([, key = '']) =>
        this.#derived.has(key),
      )
    )
      this.shown.add('session_api_key');
    const isValue = headers['content-type']?.startsWith('text/plain') === true;
    if (isValue && leaksIn(text, this.#world.secretValues).length > 0)
      this.shown.add('value of a secret');
    const seen = `${JSON.stringify(headers)}${withoutFields(text, 'session_api_key', 'key')}`;
    this.#search(`the answer to ${method} ${target.slice(0, 200)}`, seen, {
      ...this.#world.secrets,
      ...this.#world.internals,
      ...(isValue ? {} : this.#world.secretValues),
    });
  };

  /** The log, the metrics and the resources. */
  async finish(): Promise<void> {
    this.#remove();
    const { log, metrics, internals } = this.#world;
    const secrets = { ...this.#world.secrets, ...this.#world.secretValues };
    for (const line of log.lines) {
      this.#search(`the log: ${line.message}`, inspect(line, { depth: 8, maxStringLength: null }), {
        ...secrets,
        ...this.#issued,
      });
    }
    this.#search('the metrics', await metrics.registry.metrics(), {
      ...secrets,
      ...internals,
      ...this.#issued,
    });
    for (const object of await this.#world.cluster())
      this.#search(`the ${object.kind} ${object.metadata.name}`, JSON.stringify(object), secrets);
  }

  #search(where: string, text: string, secrets: Secrets): void {
    for (const secret of leaksIn(text, secrets)) this.leaks.push(`${where} contains the ${secret}`);
    for (const [token] of text.matchAll(/[\w-]{43,}/g)) {
      for (let start = 0; start + keyLength <= token.length; start++) {
        if (this.#derived.has(token.slice(start, start + keyLength)))
          this.leaks.push(`${where} contains a sandbox's key`);
      }
    }
  }
}
