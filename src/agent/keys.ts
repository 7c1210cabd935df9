import { createHash, createHmac, createSecretKey, timingSafeEqual, type KeyObject } from 'node:crypto';
import { uuidOfBytes } from '../resources/ids.ts';

type Purpose = 'session' | 'client' | 'secret' | 'bootstrap' | 'clone';

/** What a ticket opens: one repository, for reading. */
export interface CloneGrant {
  readonly provider: string;
  /** As the conversation names it: owner/name, without `.git`. */
  readonly repository: string;
}

/** The parts that a client's session key depends on, beside the sandbox. */
export interface ClientGrant {
  /** UID of the API key whose reader is shown the session key. */
  readonly apiKeyUid: string;
  /** Number of rotations of the sandbox's session keys. */
  readonly generation: number;
}

/** Enough that guessing is out of the question, and what a random 256 bit key in base64 has at least. */
const minMasterKeyBytes = 32;
/** Maximum number of keys that are remembered, some 200 bytes each: every answer about a sandbox that runs has one. */
const maxRemembered = 20_000;

interface ClientKey {
  readonly keyId: string;
  readonly generation: number;
  readonly key: string;
}

/**
 * The keys of a sandbox's agent, derived from a master key and the sandbox's uid: stored nowhere, and the same on every replica.
 *
 * They have to stay the same as long as the sandbox lives: with another secret key the agent can't read its own files any more,
 * and clients keep the session key. So a sandbox remembers the id of the master key that it was made under (`currentKeyId` at
 * that time, not a secret) and hands it in here; putting a new master key in front changes the keys of new sandboxes only.
 */
export class SandboxKeys {
  #masterKeys: ReadonlyMap<string, KeyObject> = new Map();
  /** By the master key's id and the sandbox's uid. Nested maps: a text that is put together costs more than both look-ups. */
  readonly #sessionKeys = new Map<string, Map<string, string>>();
  /** By the API key's uid and the sandbox's uid. */
  readonly #clientKeys = new Map<string, Map<string, ClientKey>>();
  #remembered = 0;
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
    this.#forget();
    this.#currentKeyId = keyIdOf(current);
  }

  /**
   * The key that the agent itself demands in `X-Session-API-Key`, constant for the life of the sandbox. Clients have a key of their own,
   * which the gateway replaces by this one. Throws when `keyId` names no master key that is known.
   */
  sessionKey(sandboxUid: string, keyId = this.currentKeyId): string {
    const known = this.#sessionKeys.get(keyId)?.get(sandboxUid);
    if (known !== undefined) return known;
    const key = this.#derive(sandboxUid, 'session', keyId);
    this.#remember(this.#sessionKeys, keyId, sandboxUid, key);
    return key;
  }

  /** Whether the keys of a sandbox can be derived that was made under this master key. */
  knows(keyId = this.currentKeyId): boolean {
    return this.#masterKeys.has(keyId);
  }

  /**
   * The session key that a client shows to the gateway: a reference to the API key that it was read with, then a MAC. The gateway accepts
   * the session key only while that API key is valid, and a rotation makes another one. Throws when `keyId` names no master key that is known.
   */
  clientKey(sandboxUid: string, { apiKeyUid, generation }: ClientGrant, keyId = this.currentKeyId): string {
    const known = this.#clientKeys.get(apiKeyUid)?.get(sandboxUid);
    if (known !== undefined && known.generation === generation && known.keyId === keyId) return known.key;
    if (apiKeyUid === '') throw new Error('the uid of an API key is needed');
    const mac = createHmac('sha256', this.#derive(sandboxUid, 'client', keyId))
      .update(`${generation}/${apiKeyUid}`)
      .digest('base64url');
    const key = `${sessionReferenceOf(apiKeyUid)}${mac}`;
    this.#remember(this.#clientKeys, apiKeyUid, sandboxUid, { keyId, generation, key });
    return key;
  }

  /**
   * UUIDv8s for a text, the same on every replica, which cannot be computed without the master key. One for each master key, the current
   * one first: during a rotation what was named under another master key is found under the later ones.
   */
  derivedIds(text: string): readonly string[] {
    return Array.from(this.#masterKeys.values(), (masterKey) => {
      const key = createHmac('sha256', masterKey).update('ids').digest();
      return uuidOfBytes(createHmac('sha256', key).update(text).digest());
    });
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

  #remember<T>(keys: Map<string, Map<string, T>>, first: string, second: string, value: T): void {
    if (this.#remembered >= maxRemembered) this.#forget();
    const inner = keys.get(first) ?? new Map<string, T>();
    if (!inner.has(second)) this.#remembered += 1;
    keys.set(first, inner.set(second, value));
  }

  #forget(): void {
    this.#sessionKeys.clear();
    this.#clientKeys.clear();
    this.#remembered = 0;
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

const referenceLength = 16;
/** Names an API key within a session key, by 96 bits of a hash of its uid. Not secret. */
export const sessionReferenceOf = (apiKeyUid: string): string =>
  createHash('sha256').update(apiKeyUid).digest('base64url').slice(0, referenceLength);
/** The reference that a client's session key begins with. */
export const referenceIn = (clientKey: string): string => clientKey.slice(0, referenceLength);

/** No sandbox's key: what those are made of has a slash in it. */
const hintKeyOf = (masterKey: KeyObject): string => createHmac('sha256', masterKey).update('hints').digest('base64url');

const keyIdOf = (masterKey: Buffer): string => createHmac('sha256', masterKey).update('key-id').digest('hex').slice(0, 12);
