import { agentPortName } from './address.ts';

const shape =
  /^(https?):\/\/([a-z0-9-]*)\{sandbox\}(-{1,2})\{port\}([a-z0-9-]*)((?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+)(:\d{1,5})?\/?$/;
const sandboxLabel = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/;
const maxLabelLength = 63;

/** The name of the port in a host name. */
const portLabel = agentPortName.toLowerCase().replaceAll('_', '-');

/**
 * A host name for the agent of each sandbox, in the form
 * `https://{sandbox}-{port}.agents.example.com`. Both are in the first label, so that one wildcard
 * covers all host names.
 */
export class HostTemplate {
  /** A source of a content security policy that all origins match. */
  readonly source: string;
  readonly #start: string;
  readonly #end: string;
  readonly #hostStart: string;
  readonly #hostEnd: string;

  /** Throws where the template has another form. */
  constructor(template: string) {
    const [, scheme, before, between, after, domain, port = ''] = shape.exec(template) ?? [];
    if (
      scheme === undefined ||
      before === undefined ||
      between === undefined ||
      after === undefined ||
      domain === undefined
    ) {
      throw new Error(
        `a URL template must have the form https://{sandbox}-{port}.agents.example.com, not ${template}`,
      );
    }
    this.source = `${scheme}://*${domain}${port}`;
    this.#hostStart = before;
    this.#hostEnd = `${between}${portLabel}${after}${domain}`;
    this.#start = `${scheme}://${before}`;
    this.#end = port;
  }

  /** An origin. Undefined for a sandbox whose name fits into no label. */
  urlOf(sandbox: string): string | undefined {
    const host = `${this.#hostStart}${sandbox}${this.#hostEnd}`;
    return !sandboxLabel.test(sandbox) || host.indexOf('.') > maxLabelLength
      ? undefined
      : `${this.#start}${sandbox}${this.#hostEnd}${this.#end}`;
  }

  /** The sandbox that a Host header names; a port number in the header does not matter. */
  match(host: string): string | undefined {
    const name = host.toLowerCase().replace(/\.?(?::\d*)?$/, '');
    if (!name.startsWith(this.#hostStart) || !name.endsWith(this.#hostEnd)) return undefined;
    const sandbox = name.slice(this.#hostStart.length, -this.#hostEnd.length);
    return sandboxLabel.test(sandbox) ? sandbox : undefined;
  }
}
