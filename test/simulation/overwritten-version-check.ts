import { findCondition } from '../../src/resources/conditions.ts';
import { conversations } from '../../src/resources/conversation.ts';
import { SandboxCondition, sandboxes, type Sandbox } from '../../src/resources/sandbox.ts';
import type { Change, Cluster } from './cluster.ts';
import type { Findings } from './findings.ts';
import { Violation } from './safety.ts';
import type { Scheduler } from './scheduler.ts';
import type { Traffic, TrafficListener, TrafficRequest } from './traffic.ts';

export interface OverwrittenVersionCheckOptions {
  readonly cluster: Cluster;
  readonly traffic: Traffic;
  readonly scheduler: Scheduler;
  readonly findings: Findings;
  readonly isOperator: (actor: string) => boolean;
  /** How often this process has begun to lead: each time it begins with nothing but its caches. */
  readonly termOf: (actor: string) => number;
}

/** A replacement of a status. */
interface StatusWrite {
  readonly plural: string;
  readonly name: string;
  /** The version that it was decided on. */
  readonly version: number;
  readonly status: Sandbox['status'];
}

/** Maximum number of versions of one object whose admission is remembered. */
const maxVersions = 40;

/**
 * A controller that has written an object knows what it has written, however far its cache is
 * behind. One that decides on an older version acts on what it has overwritten itself: the API
 * server refuses the write, and everything before the write is done twice. The status of a
 * conversation has one writer; of a sandbox only the admission has one writer, and is checked.
 */
export class OverwrittenVersionCheck implements TrafficListener {
  readonly #options: OverwrittenVersionCheckOptions;
  /** By process, term and object: the version of the last write that was answered. */
  readonly #written = new Map<string, number>();
  /** By plural and name: the uid, and the first version, of the object that there is now. */
  readonly #present = new Map<string, { readonly uid: string; readonly since: number }>();
  /** By the name of the sandbox: what its last versions say of its admission. */
  readonly #admissions = new Map<string, Map<number, string>>();

  constructor(options: OverwrittenVersionCheckOptions) {
    this.#options = options;
    options.traffic.add(this);
    options.cluster.onChange((change) => this.#observe(change));
  }

  sent(request: TrafficRequest): void {
    const write = this.#writeOf(request);
    if (write === undefined) return;
    const { version } = write;
    const written = this.#written.get(this.#keyOf(request, write)) ?? 0;
    const present = this.#present.get(keyOf(write));
    // Decided for an earlier object of the name, or one that is gone.
    if (present === undefined || version >= written || version < present.since) return;
    const detail = `${request.actor} has written version ${written} of ${request.path} and decides on version ${version}`;
    this.#options.findings.report(
      new Violation('no controller acts on a version that it has overwritten', detail),
    );
  }

  answered(request: TrafficRequest, status: number, body: string): void {
    const write = status === 200 ? this.#writeOf(request) : undefined;
    if (write !== undefined)
      this.#written.set(
        this.#keyOf(request, write),
        Number(/"resourceVersion":"(\d+)"/.exec(body)?.[1] ?? 0),
      );
  }

  #observe({ plural, type, object, version }: Change): void {
    if (plural !== conversations.plural && plural !== sandboxes.plural) return;
    const { name, uid } = object.metadata;
    const key = keyOf({ plural, name });
    if (type === 'DELETED') this.#present.delete(key);
    else if (this.#present.get(key)?.uid !== uid) this.#present.set(key, { uid, since: version });
    if (plural === sandboxes.plural) {
      const known = this.#admissions.get(name) ?? new Map<number, string>();
      this.#admissions.set(name, known);
      known.set(version, admissionIn((object as Sandbox).status));
      for (const old of known.keys()) if (known.size > maxVersions) known.delete(old);
    }
  }

  #writeOf({ actor, method, path, body = '' }: TrafficRequest): StatusWrite | undefined {
    const [, plural = '', name = ''] =
      /\/(conversations|sandboxes)\/([^/]+)\/status$/.exec(path) ?? [];
    if (method !== 'PATCH' || name === '' || !this.#options.isOperator(actor)) return undefined;
    if (!body.startsWith('[')) return undefined;
    const operations = JSON.parse(body) as readonly {
      readonly path?: string;
      readonly value?: unknown;
    }[];
    const valueAt = (at: string): unknown =>
      operations.find((operation) => operation.path === at)?.value;
    const write = {
      plural,
      name,
      version: Number(valueAt('/metadata/resourceVersion')),
      status: valueAt('/status') as Sandbox['status'],
    };
    return plural === conversations.plural || this.#admits(write) ? write : undefined;
  }

  /** Whether the write changes the admission: the controller of sandboxes leaves it as it is. */
  #admits({ name, version, status }: StatusWrite): boolean {
    const before = this.#admissions.get(name)?.get(version);
    return before !== undefined && before !== admissionIn(status);
  }

  #keyOf({ actor }: TrafficRequest, write: StatusWrite): string {
    return `${actor} ${this.#options.termOf(actor)} ${this.#present.get(keyOf(write))?.uid ?? ''}`;
  }
}

const keyOf = ({ plural, name }: Pick<StatusWrite, 'plural' | 'name'>): string =>
  `${plural}/${name}`;
const admissionIn = (status: Sandbox['status']): string =>
  JSON.stringify(findCondition(status?.conditions, SandboxCondition.admitted) ?? null);
