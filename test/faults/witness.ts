import type { Handler } from '@conversation-operator/kube/reflector';
import type { KubeObject } from '@conversation-operator/kube/object';

/**
 * Versions are numbers for every API server there is, though clients must not build on that; a test
 * may.
 */
const versionOf = (object: KubeObject): bigint => BigInt(object.metadata.resourceVersion);

/**
 * A handler that checks what a reflector promises of each uid: added once, updates that grow,
 * deleted once, nothing after that, and each update with the object that was reported before.
 */
export class Witness<T extends KubeObject> implements Handler<T> {
  readonly #present = new Map<string, T>();
  /** The last version of uids that are gone. */
  readonly #gone = new Map<string, bigint>();
  readonly #mayReturn: boolean;
  readonly violations: string[] = [];
  events = 0;

  /** `mayReturn`: objects leave a label selector and come back under the same uid. */
  constructor({ mayReturn }: { readonly mayReturn: boolean }) {
    this.#mayReturn = mayReturn;
  }

  /** uid → version, as the handler has received it. */
  get present(): ReadonlyMap<string, string> {
    return new Map(
      [...this.#present].map(([uid, object]) => [uid, object.metadata.resourceVersion]),
    );
  }

  added(object: T): void {
    this.events++;
    const { uid, name } = object.metadata;
    const gone = this.#gone.get(uid);
    if (this.#present.has(uid)) this.#violated(`${name} ${uid} was added twice`);
    if (gone !== undefined && !(this.#mayReturn && versionOf(object) > gone))
      this.#violated(`${name} ${uid} came back after its deletion`);
    for (const other of this.#present.values()) {
      if (other.metadata.name === name)
        this.#violated(`${name} ${uid} was added beside ${other.metadata.uid}`);
    }
    this.#present.set(uid, object);
  }

  updated(object: T, old: T): void {
    this.events++;
    const { uid, name } = object.metadata;
    const known = this.#present.get(uid);
    if (known === undefined) this.#violated(`${name} ${uid} was updated but never added`);
    else if (known !== old)
      this.#violated(
        `${name} ${uid} was updated from ${old.metadata.resourceVersion}, not from what was reported before`,
      );
    else if (versionOf(object) <= versionOf(known)) {
      this.#violated(
        `${name} ${uid} went from version ${known.metadata.resourceVersion} to ${object.metadata.resourceVersion}`,
      );
    }
    this.#present.set(uid, object);
  }

  deleted(object: T): void {
    this.events++;
    const { uid, name } = object.metadata;
    if (!this.#present.delete(uid)) this.#violated(`${name} ${uid} was deleted but not there`);
    this.#gone.set(uid, versionOf(object));
  }

  #violated(what: string): void {
    this.violations.push(what);
  }
}
