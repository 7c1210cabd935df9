import type { ObjectStore } from '@conversation-operator/object-store/object-store';
import type { Codec } from '../../../src/archive/codec.ts';
import { segmentNameOf } from '../../../src/archive/manifest.ts';
import { OpenArchive } from '../../../src/archive/open-archive.ts';
import { createHistoryReader } from '../../../src/archive/reader.ts';
import type { Conversation } from '../../../src/resources/conversation.ts';
import type { ModelAgent } from './agents.ts';
import type { Findings } from './findings.ts';

/** The content of an archive, as read from the store alone. */
interface Content {
  readonly head: string;
  readonly ids: readonly string[];
  /** Keys of the objects that a reader of the head needs, with their sizes. */
  readonly needed: ReadonlyMap<string, number>;
}

/** A read of it: the JSON of the events from a position on. */
interface Read extends Content {
  readonly from: number;
  readonly jsons: readonly string[];
}

interface Subject {
  readonly uid: string;
  readonly agent: ModelAgent;
  readonly secrets: readonly string[];
  content: Content | undefined;
  /** Ids of events that are archived for ever. */
  readonly sealed: Set<string>;
  /** When the archive has grown last, in milliseconds of the simulation. */
  grownAt: number;
  isDeleted: boolean;
  /** Number of archives of the conversation that have expired. */
  expiries: number;
  heads: number;
  /** The head that the status of a backup names, which may not exist. Undefined: no restore. */
  restored: { readonly head: string | undefined } | undefined;
}

export interface ArchiveChecksOptions {
  readonly findings: Findings;
  /** The store itself, without faults. */
  readonly store: ObjectStore;
  readonly codec: Codec;
  readonly namespace: string;
  readonly maxBytes: number;
  /** Undefined: archives do not expire. */
  readonly retentionMs: number | undefined;
  readonly now: () => number;
  readonly onExpired: (uid: string) => void;
}

/** Stored bytes beside the events of a page: the manifest, and the checksums of ids. */
const overheadBytes = 8_192;
const headsPerFullRead = 8;

/** Compares the store with what agents have written, trusting no status but the head's name. */
export class ArchiveChecks {
  readonly #options: ArchiveChecksOptions;
  readonly #subjects = new Map<string, Subject>();

  constructor(options: ArchiveChecksOptions) {
    this.#options = options;
  }

  add(uid: string, agent: ModelAgent, secrets: readonly string[]): void {
    this.#subjects.set(uid, {
      uid,
      agent,
      secrets,
      content: undefined,
      sealed: new Set(),
      grownAt: 0,
      isDeleted: false,
      expiries: 0,
      heads: 0,
      restored: undefined,
    });
  }

  idsOf(uid: string): readonly string[] {
    return this.#subjects.get(uid)?.content?.ids ?? [];
  }

  expiriesOf(uid: string): number {
    return this.#subjects.get(uid)?.expiries ?? 0;
  }

  isDeleted(uid: string): boolean {
    return this.#subjects.get(uid)?.isDeleted !== false;
  }

  /** The archive has reached its limit, so that nothing more is added. */
  isFull(uid: string): boolean {
    const content = this.#subjects.get(uid)?.content;
    return content !== undefined && sizeOf(content) >= this.#options.maxBytes;
  }

  /** A version of a conversation was stored, or the conversation was deleted. */
  async onConversation({ metadata, status }: Conversation, isDeleted: boolean): Promise<void> {
    const subject = this.#subjects.get(metadata.uid);
    if (subject === undefined) return;
    if (isDeleted) {
      subject.isDeleted = true;
      return;
    }
    const head = status?.archive?.head;
    if (head === subject.content?.head) return;
    if (subject.restored !== undefined && subject.restored.head === head) return;
    if (head === undefined) {
      this.#onExpiry(subject);
      return;
    }
    const content = await this.#read(subject, head);
    if (content === undefined) return;
    this.#compare(subject, content);
    subject.content = content;
    subject.heads++;
    subject.grownAt = this.#options.now();
  }

  /** A seal that began when the agent had these events says that the archive has them. */
  onSealed(uid: string, ids: readonly string[]): void {
    const { findings } = this.#options;
    const subject = this.#subjects.get(uid);
    if (subject === undefined || subject.isDeleted || subject.agent.lies) return;
    for (const id of ids) subject.sealed.add(id);
    const missing = missingOf(subject.sealed, subject.content?.ids ?? []);
    if (missing !== undefined)
      findings.report('a complete seal has everything', `${uid} lacks ${missing}`);
  }

  /** The statuses are those of a backup. The store must keep these conversations' archives. */
  onRestored(backup: readonly Conversation[]): void {
    for (const { metadata, status } of backup) {
      const subject = this.#subjects.get(metadata.uid);
      if (subject !== undefined) subject.restored = { head: status?.archive?.head };
    }
  }

  /** An operator of another installation has written or deleted objects. */
  onWriteElsewhere(keys: readonly string[]): void {
    const { findings } = this.#options;
    const own = keys.find((key) => this.#subjects.has(key.split('/')[1] ?? ''));
    if (own !== undefined) findings.report('nothing of another installation is touched', own);
  }

  onDeleted(keys: readonly string[]): void {
    const { findings, namespace } = this.#options;
    for (const { uid, content, isDeleted } of this.#subjects.values()) {
      const lost = isDeleted ? undefined : keys.find((key) => content?.needed.has(key));
      if (lost !== undefined)
        findings.report('no object of a current head is deleted', `${lost} of ${uid}`);
    }
    const foreign = keys.find((key) => key.startsWith(`${namespace}/foreign-`));
    if (foreign !== undefined)
      findings.report('nothing of another installation is touched', foreign);
  }

  /** Checks the whole archive, and that it has one head, after a pause without faults. */
  async checkHeads(uid: string): Promise<void> {
    const { findings } = this.#options;
    const subject = this.#subjects.get(uid);
    const head = subject?.content?.head;
    if (subject === undefined || head === undefined) return;
    subject.heads = 0;
    const content = await this.#read(subject, head);
    if (content !== undefined) this.#compare(subject, content);
    const heads = (await this.#keys(`${this.#options.namespace}/${uid}/h/`)).map(
      (key) => key.split('/').at(-1) ?? '',
    );
    const old = heads.find((name) => name !== head && name.slice(0, 10) <= head.slice(0, 10));
    if (old !== undefined) findings.report('replaced heads are deleted', `${old} of ${uid}`);
  }

  /** At the end, after a sweep: nothing is left that belongs to no living conversation. */
  async checkRemains(): Promise<void> {
    const { findings, namespace } = this.#options;
    for (const key of await this.#keys(`${namespace}/`)) {
      const [, uid = ''] = key.split('/');
      const subject = this.#subjects.get(uid);
      if (subject === undefined) continue;
      if (subject.isDeleted) findings.report('nothing of a deleted conversation remains', key);
      if (!subject.isDeleted && subject.expiries > 0 && subject.content === undefined)
        findings.report('nothing of an expired archive remains', key);
    }
  }

  #onExpiry(subject: Subject): void {
    const { findings, retentionMs = Infinity, now } = this.#options;
    const ageMs = now() - subject.grownAt;
    // The status is stored up to a minute after the time that it has.
    if (ageMs < retentionMs - 70_000)
      findings.report('no archive expires before its time', `${subject.uid} after ${ageMs} ms`);
    subject.content = undefined;
    subject.sealed.clear();
    subject.expiries++;
    this.#options.onExpired(subject.uid);
  }

  /** Reads the events behind those that are known, and now and then all of them. */
  async #read({ uid, content, heads }: Subject, head: string): Promise<Read | undefined> {
    const { findings, store, codec, namespace } = this.#options;
    const address = { namespace, uid };
    const from = heads % headsPerFullRead === 0 ? 0 : (content?.ids.length ?? 0);
    try {
      const { manifest } = await OpenArchive.open({ store, codec }, address, head);
      const ids = [...(content?.ids.slice(0, from) ?? [])];
      const jsons: string[] = [];
      for await (const part of createHistoryReader({ store, codec }).all(
        { ...address, head },
        from,
      ))
        for (const { id, json } of part) {
          ids.push(id);
          jsons.push(json.toString());
        }
      const names = manifest.segments
        .filter(({ hash }) => hash !== undefined)
        .map((segment) => `${namespace}/${uid}/s/${segmentNameOf(segment)}`);
      const needed = new Map<string, number>();
      for (const key of [`${namespace}/${uid}/h/${head}`, ...names])
        needed.set(key, (await store.get(key))?.length ?? 0);
      return { head, ids, from, jsons, needed };
    } catch (error) {
      findings.report(
        'the objects of a fresh head exist and are whole',
        `${uid}: ${String(error)}`,
      );
      return undefined;
    }
  }

  #compare(subject: Subject, { ids, from, jsons, needed }: Read): void {
    const { findings, maxBytes } = this.#options;
    const { uid, agent, secrets, content, sealed } = subject;
    const before = content?.ids ?? [];
    const moved = before.findIndex((id, index) => ids[index] !== id);
    if (moved !== -1) findings.report('archived events stay where they are', `${uid} at ${moved}`);
    const missing = missingOf(sealed, ids);
    if (missing !== undefined)
      findings.report('archived events stay where they are', `${uid} lacks ${missing}`);
    const written = new Map(agent.written.map((event) => [event.id, event]));
    let last = written.get(ids[from - 1] ?? '')?.index ?? -1;
    jsons.forEach((json, index) => {
      const position = from + index;
      const id = ids[position] ?? '';
      const event = written.get(id);
      const isBehind = event !== undefined && (agent.lies || event.index > last);
      const isSame = event?.isPlain !== true || event.json === json;
      if (!isBehind || !isSame)
        findings.report(
          'the archive has events of the agent, in order and once',
          `${id} at ${position} of ${uid}`,
        );
      last = event?.index ?? last;
    });
    // The ids of an agent that lies are compared with those of the last segment.
    if (agent.lies && needed.size === 1 && new Set(ids).size !== ids.length)
      findings.report('the archive has events of the agent, in order and once', `${uid} repeats`);
    const leak = jsons.find((json) => secrets.some((secret) => json.includes(secret)));
    if (leak !== undefined) findings.report('no archive contains a secret', leak.slice(0, 80));
    const bytes = [...needed.values()].reduce((sum, one) => sum + one, 0);
    if (bytes > maxBytes + pageBytes(agent) + overheadBytes)
      findings.report('an archive stays within its limit', `${uid} has ${bytes} of ${maxBytes}`);
  }

  async #keys(prefix: string): Promise<readonly string[]> {
    const { names } = await this.#options.store.list({ prefix });
    return names.map(({ key }) => key);
  }
}

const sizeOf = ({ needed }: Content): number =>
  [...needed.values()].reduce((sum, one) => sum + one, 0);

const missingOf = (wanted: ReadonlySet<string>, ids: readonly string[]): string | undefined => {
  const present = new Set(ids);
  return [...wanted].find((id) => !present.has(id));
};

/** Maximum bytes of a page and of the partial frame before it: the limit counts neither. */
const pageBytes = ({ written }: ModelAgent): number => {
  const sizes = written.map(({ json }) => json.length);
  let sum = 0;
  let most = 0;
  sizes.forEach((size, index) => {
    sum += size - (sizes[index - 100] ?? 0);
    most = Math.max(most, sum);
  });
  return 2 * most;
};
