import { createHash, createHmac, createSecretKey, timingSafeEqual, type KeyObject } from 'node:crypto';

type Purpose = 'session' | 'secret' | 'bootstrap' | 'clone';

/** What a ticket opens: one repository, for reading. */
export interface CloneGrant {
  readonly provider: string;
  /** As the conversation names it: owner/name, without `.git`. */
  readonly repository: string;
}

/** Enough that guessing is out of the question, and what a random 256 bit key in base64 has at least. */
const minMasterKeyBytes = 32;
/** Session keys that are remembered, some 200 bytes each: every answer about a sandbox that runs has one. */
const maxRemembered = 20_000;

/**
 * The keys of a sandbox's agent, derived from a master key and the sandbox's uid: stored nowhere, and the same on every replica.
 *
 * They have to stay the same as long as the sandbox lives: with another secret key the agent can't read its own files any more,
 * and clients keep the session key. So a sandbox remembers the id of the master key that it was made under (`currentKeyId` at
 * that time, not a secret) and hands it in here; putting a new master key in front changes the keys of new sandboxes only.
 */
export class SandboxKeys {
  #masterKeys: ReadonlyMap<string, KeyObject> = new Map();
  readonly #sessionKeys = new Map<string, string>();
  #currentKeyId = '';

  /** The first master key is the current one, the others are those that living sandboxes were made under. */
  constructor(masterKeys: readonly Buffer[]) {
    this.replace(masterKeys);
  }

  /** Names the master key that new sandboxes use. Tells nothing about the key itself. */
  get currentKeyId(): string {
    return this.#currentKeyId;
  }

  /** Goes on with other master keys, under the rules of the constructor. Throws, and goes on as before, when they can't be used. */
  replace(masterKeys: readonly Buffer[]): void {
    const [current] = masterKeys;
    if (current === undefined) throw new Error('at least one master key is needed');
    if (masterKeys.some(({ length }) => length < minMasterKeyBytes)) {
      throw new Error(`a master key has to have at least ${minMasterKeyBytes} bytes`);
    }
    this.#masterKeys = new Map(masterKeys.map((key) => [keyIdOf(key), createSecretKey(key)]));
    this.#sessionKeys.clear();
    this.#currentKeyId = keyIdOf(current);
  }

  /** What clients show to the agent in `X-Session-API-Key`. Throws when `keyId` names no master key that is known. */
  sessionKey(sandboxUid: string, keyId = this.currentKeyId): string {
    const id = `${keyId}/${sandboxUid}`;
    const known = this.#sessionKeys.get(id);
    if (known !== undefined) return known;
    const key = this.#derive(sandboxUid, 'session', keyId);
    if (this.#sessionKeys.size >= maxRemembered) this.#sessionKeys.clear();
    this.#sessionKeys.set(id, key);
    return key;
  }

  /** What the agent encrypts secrets in its files with. */
  secretKey(sandboxUid: string, keyId = this.currentKeyId): string {
    return this.#derive(sandboxUid, 'secret', keyId);
  }

  /** What the operator shows to a dormant agent. Stands in the pod's environment, where the agent's shell can read it: good for nothing else. */
  bootstrapKey(sandboxUid: string, keyId = this.currentKeyId): string {
    return this.#derive(sandboxUid, 'bootstrap', keyId);
  }

  /** Whether the candidate is the sandbox's session key under any master key. The time it takes tells nothing about how right it was. */
  acceptsSessionKey(sandboxUid: string, candidate: string): boolean {
    const given = digest(candidate);
    let accepted = false;
    for (const keyId of this.#masterKeys.keys()) {
      if (timingSafeEqual(given, digest(this.sessionKey(sandboxUid, keyId)))) accepted = true;
    }
    return accepted;
  }

  /** What gateways show to operators when they pass on what agents have hinted: the same for all of them, and good for nothing else. */
  hintKey(): string {
    return hintKeyOf(this.#masterKey(this.currentKeyId));
  }

  /** Whether the candidate is that, under any master key. The time it takes tells nothing about how right it was. */
  acceptsHintKey(candidate: string): boolean {
    const given = digest(candidate);
    let accepted = false;
    for (const masterKey of this.#masterKeys.values()) {
      if (timingSafeEqual(given, digest(hintKeyOf(masterKey)))) accepted = true;
    }
    return accepted;
  }

  #masterKey(keyId: string): KeyObject {
    const masterKey = this.#masterKeys.get(keyId);
    if (masterKey === undefined) throw new Error(`the master key ${keyId} is not among those given`);
    return masterKey;
  }

  /**
   * What a sandbox shows to the gateway to clone a repository by its owner's credential: `<end in seconds since 1970>.<MAC>`. It opens
   * nothing else, and nothing later.
   */
  cloneTicket(sandboxUid: string, grant: CloneGrant, endMs: number, keyId = this.currentKeyId): string {
    const end = String(Math.ceil(endMs / 1000));
    return `${end}.${ticketMac(this.#derive(sandboxUid, 'clone', keyId), grant, end)}`;
  }

  /** Whether the ticket is the sandbox's, for this repository, and still good. The time it takes tells nothing about how right it was. */
  acceptsCloneTicket(sandboxUid: string, grant: CloneGrant, ticket: string, nowMs: number): boolean {
    const end = /^(\d{1,12})\./.exec(ticket)?.[1] ?? '0';
    const given = digest(ticket);
    let accepted = false;
    for (const keyId of this.#masterKeys.keys()) {
      const right = `${end}.${ticketMac(this.#derive(sandboxUid, 'clone', keyId), grant, end)}`;
      if (timingSafeEqual(given, digest(right))) accepted = true;
    }
    return accepted && nowMs < Number(end) * 1000;
  }

  #derive(sandboxUid: string, purpose: Purpose, keyId: string): string {
    const masterKey = this.#masterKeys.get(keyId);
    if (masterKey === undefined) throw new Error(`the sandbox was made under the master key ${keyId}, which is not among those given`);
    // An empty uid would give all sandboxes the same keys.
    if (sandboxUid === '') throw new Error('a sandbox uid is needed');
    return createHmac('sha256', masterKey).update(`${sandboxUid}/${purpose}`).digest('base64url');
  }
}

/** A provider is one word, so the parts can't run into each other. */
const ticketMac = (key: string, { provider, repository }: CloneGrant, end: string): string =>
  createHmac('sha256', key).update(`${end}/${provider}/${repository}`).digest('base64url');

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

/** No sandbox's key: what those are made of has a slash in it. */
const hintKeyOf = (masterKey: KeyObject): string => createHmac('sha256', masterKey).update('hints').digest('base64url');

const keyIdOf = (masterKey: Buffer): string => createHmac('sha256', masterKey).update('key-id').digest('hex').slice(0, 12);
