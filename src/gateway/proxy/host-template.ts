import { portNames, type PortName } from './address.ts';

const shape =
  /^(https?):\/\/([a-z0-9-]*)\{sandbox\}(-{1,2})\{port\}([a-z0-9-]*)((?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+)(:\d{1,5})?\/?$/;
const sandboxLabel = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/;
const maxLabelLength = 63;

/** The form of a port's name in a host name. */
const portLabel = (portName: PortName): string => portName.toLowerCase().replaceAll('_', '-');

/**
 * A host name for each port of each sandbox, in the form
 * `https://{sandbox}-{port}.agents.example.com`. Both are in the first label, so that one wildcard
 * covers all host names.
 */
export class HostTemplate {
  /** A source of a content security policy that all origins match. */
  readonly source: string;
  readonly #start: string;
  readonly #end: string;
  readonly #hostStart: string;
  readonly #hostEnds: ReadonlyMap<PortName, string>;

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
    this.#hostEnds = new Map(
      portNames.map((portName) => [portName, `${between}${portLabel(portName)}${after}${domain}`]),
    );
    this.#start = `${scheme}://${before}`;
    this.#end = port;
  }

  /** An origin. Undefined for a sandbox whose name fits into no label. */
  urlOf(sandbox: string, portName: PortName): string | undefined {
    const end = this.#hostEnds.get(portName);
    if (end === undefined || !sandboxLabel.test(sandbox)) return undefined;
    const host = `${this.#hostStart}${sandbox}${end}`;
    return host.indexOf('.') > maxLabelLength
      ? undefined
      : `${this.#start}${sandbox}${end}${this.#end}`;
  }

  /**
   * The sandbox and the port that a Host header names; a port number in the header does not matter.
   */
  match(host: string): { readonly sandbox: string; readonly portName: PortName } | undefined {
    const name = host.toLowerCase().replace(/\.?(?::\d*)?$/, '');
    if (!name.startsWith(this.#hostStart)) return undefined;
    for (const [portName, end] of this.#hostEnds) {
      if (!name.endsWith(end)) continue;
      const sandbox = name.slice(this.#hostStart.length, -end.length);
      if (sandboxLabel.test(sandbox)) return { sandbox, portName };
    }
    return undefined;
  }
}
