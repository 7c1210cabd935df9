import { inspect } from 'node:util';
import type { Got, Sent, TwoOwners } from '../support/gateway/two-owners.ts';
import { leaksIn, withoutFields, type Secrets } from '../support/leaks.ts';

/** Looks for secrets in every answer, and in the end in everything else that came of the requests. */
export class LeakWatch {
  readonly leaks: string[] = [];
  /** Fields in which a secret has been shown to whom it belongs: else the search would prove nothing. */
  readonly shown = new Set<string>();
  readonly #world: TwoOwners;
  #secrets: Secrets = {};
  #answers = 0;

  constructor(world: TwoOwners) {
    this.#world = world;
  }

  readonly watch = ({ method, target }: Sent, { headers, body }: Got): void => {
    // Sandboxes come and go: those of a moment ago count as well.
    if (this.#answers++ % 20 === 0) this.#secrets = { ...this.#secrets, ...this.#world.secrets };
    const text = body.toString();
    const issued = /"key":"(co_[^"]+)"/.exec(text)?.[1];
    if (issued !== undefined) {
      this.#secrets = { ...this.#secrets, [`key ${Object.keys(this.#secrets).length}`]: issued };
      this.shown.add('key');
    }
    if (/"session_api_key":"[^"]+"/.test(text)) this.shown.add('session_api_key');
    const seen = `${JSON.stringify(headers)}${withoutFields(text, 'session_api_key', 'key')}`;
    this.#look(`the answer to ${method} ${target.slice(0, 200)}`, seen, { ...this.#secrets, ...this.#world.internals });
  };

  /** The log, the metrics and the resources. */
  async finish(): Promise<void> {
    const { log, metrics } = this.#world;
    for (const line of log.lines) this.#look(`the log: ${line.message}`, inspect(line, { depth: 8, maxStringLength: null }), this.#secrets);
    this.#look('the metrics', await metrics.registry.metrics(), { ...this.#secrets, ...this.#world.internals });
    for (const object of await this.#world.cluster())
      this.#look(`the ${object.kind} ${object.metadata.name}`, JSON.stringify(object), this.#secrets);
  }

  #look(where: string, text: string, secrets: Secrets): void {
    for (const secret of leaksIn(text, secrets)) this.leaks.push(`${secret} stands in ${where}`);
  }
}
