import { createHmac, randomInt, type BinaryLike } from 'node:crypto';
import type { Clock } from '@conversation-operator/base/clock';
import type { KubeClient } from '@conversation-operator/kube/client';
import {
  isAlreadyExists,
  isConflict,
  isNotFound,
  unlessChanged,
} from '@conversation-operator/kube/errors';
import type { SandboxKeys } from '../../agent/keys.ts';
import { apiKeys, type ApiKey, type ApiKeySpec } from '../../resources/api-key.ts';
import type { KeyRing, Principal, ValidKey } from '../auth/key-ring.ts';
import { generateKey, hashKey, isWellFormedKey, issueKey, type RandomBytes } from '../auth/key.ts';
import { refuseTooManyKeys } from '../keys/keys.ts';
import type { ObjectFeed } from '../lookup/object-feed.ts';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import { subscriberOf } from '@conversation-operator/http/limits/client-address';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';

/** Owner of the ApiKeys of logins that nobody has answered; these keys open nothing. */
export const deviceLoginOwner = 'device-login';

export const deviceLoginSeconds = 600;
/** Minimum time between two polls of a program. */
export const pollSeconds = 5;
/** Maximum logins that wait for a person, of all programs and of one address or IPv6 /64. */
const maxPending = 100;
const maxPendingOfAddress = 10;
const maxAddressLength = 64;
/** Letters that no one mistakes for another one, and that make no words. */
const alphabet = 'BCDFGHJKLMNPQRSTVWXZ';
const codeLength = 8;
const appearMs = 1_000;

export type Device = NonNullable<ApiKeySpec['device']>;

/** A login that waits for the answer of a person. */
export interface PendingLogin {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly device: Device;
}

export interface Grant {
  readonly scopes: ApiKeySpec['scopes'];
  /** Expiration time of the key, in milliseconds since 1970. */
  readonly expiresAtMs: number;
}

/** An error of RFC 8628 §3.5 or RFC 6749 §5.2. */
export type TokenError =
  | 'authorization_pending'
  | 'slow_down'
  | 'expired_token'
  | 'access_denied'
  | 'unsupported_grant_type'
  | 'invalid_request';

export interface DeviceLoginsOptions {
  readonly client: Pick<KubeClient, 'create' | 'delete' | 'mergePatch'>;
  readonly namespace: string;
  readonly clock: Clock;
  readonly keys: Pick<SandboxKeys, 'sessionSealKeys'>;
  readonly ring: KeyRing;
  readonly lookup: Pick<ResourceLookup, 'apiKeysOf'>;
  readonly feed: Pick<ObjectFeed<ApiKey>, 'settled'>;
  readonly random: RandomBytes;
}

const newUserCode = (): string =>
  Array.from({ length: codeLength }, () => alphabet.charAt(randomInt(alphabet.length))).join('');

/** The user code of a text that a person has typed: without case, spaces and hyphens. */
export const userCodeOf = (text: string): string => text.toUpperCase().replaceAll(/[\s-]/g, '');

/** The user code as people read it. */
export const shownCode = (code: string): string => `${code.slice(0, 4)}-${code.slice(4)}`;

/**
 * Logins of programs by a code (RFC 8628). A login is an ApiKey with `signIn: Device`, which opens
 * nothing. The key that a person grants derives from a master key and the UID of that object, so
 * that any replica answers the program, and no text of a key is stored. The deletion of the object
 * decides: of concurrent polls on any replica, one gets the key.
 */
export class DeviceLogins {
  readonly #options: DeviceLoginsOptions;
  /** Time of the last poll on this replica, by UID. */
  readonly #polls = recentlyUsed<number>(1_000);
  /** Logins that are being created, which no cache shows yet. */
  #beginning = 0;

  constructor(options: DeviceLoginsOptions) {
    this.#options = options;
  }

  /** Begins a login; undefined while too many logins wait for a person. */
  async begin({
    program,
    address,
  }: Pick<Device, 'program' | 'address'>): Promise<
    { readonly deviceCode: string; readonly userCode: string } | undefined
  > {
    const from = subscriberOf(address);
    const pending = await this.#withoutExpired();
    const own = pending.filter(({ spec }) => subscriberOf(spec.device?.address ?? '') === from);
    if (pending.length + this.#beginning >= maxPending || own.length >= maxPendingOfAddress)
      return undefined;
    this.#beginning += 1;
    try {
      return await this.#create({ program, address }, pending);
    } finally {
      this.#beginning -= 1;
    }
  }

  async #create(
    { program, address }: Pick<Device, 'program' | 'address'>,
    pending: readonly ApiKey[],
  ): Promise<{ readonly deviceCode: string; readonly userCode: string }> {
    const { client, namespace, clock, feed, random } = this.#options;
    const taken = new Set(pending.map(({ spec }) => spec.device?.userCodeHash));
    const [sealKey] = this.#sealKeys();
    let userCode = newUserCode();
    while (taken.has(userCodeHash(sealKey, userCode))) userCode = newUserCode();
    const { key: deviceCode, resource } = await issueKey({
      client,
      namespace,
      random,
      owner: deviceLoginOwner,
      signIn: 'Device',
      description: 'A program that waits for a person.',
      device: {
        userCodeHash: userCodeHash(sealKey, userCode),
        program,
        address: address.slice(0, maxAddressLength),
      },
      expiresAt: new Date(clock.now() + deviceLoginSeconds * 1000).toISOString(),
    });
    await feed.settled(resource.metadata.name, (seen) => seen !== undefined);
    return { deviceCode, userCode };
  }

  /** The login of a user code that waits for an answer; undefined if there is none. */
  find(userCode: string): PendingLogin | undefined {
    const hashes = new Set(this.#sealKeys().map((key) => userCodeHash(key, userCode)));
    for (const { metadata, spec, status } of this.#pending())
      if (
        spec.device !== undefined &&
        hashes.has(spec.device.userCodeHash) &&
        status?.deviceAnswer === undefined
      )
        return { ...metadata, device: spec.device };
    return undefined;
  }

  #sealKeys(): readonly [Buffer, ...Buffer[]] {
    const [first, ...others] = this.#options.keys.sessionSealKeys();
    if (first === undefined) throw new Error('a master key is needed for logins by a code');
    return [first, ...others];
  }

  /**
   * Grants a program a key of the person, and returns its name. A repetition grants the same key.
   * Undefined if another request has answered the login.
   */
  async grant(
    login: PendingLogin,
    person: Principal,
    { scopes, expiresAtMs }: Grant,
  ): Promise<string | undefined> {
    const { client, namespace, feed, lookup } = this.#options;
    refuseTooManyKeys(lookup, person.owner);
    const [sealKey] = this.#sealKeys();
    const name = keyNameOf(login.uid);
    // The key ends with the session, as every key that a session makes.
    const issuedBy = { name: person.keyName, uid: person.keyUid };
    try {
      await issueKey({
        client,
        namespace,
        name,
        random: randomOf(sealKey, login.uid),
        owner: person.owner,
        role: person.role,
        scopes,
        templates: person.chain.templates && [...person.chain.templates],
        description: login.device.program,
        issuedBy,
        expiresAt: new Date(expiresAtMs).toISOString(),
      });
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
    }
    // Another request may have answered before, with another person or other scopes.
    const made = await feed.settled(name, (seen) => seen !== undefined);
    const isThis =
      made?.spec.issuedBy?.uid === issuedBy.uid && String(made.spec.scopes) === String(scopes);
    if (!isThis || !(await this.#answer(login, 'Granted'))) return undefined;
    return name;
  }

  /** Returns false if another request has answered the login. */
  refuse(login: PendingLogin): Promise<boolean> {
    return this.#answer(login, 'Refused');
  }

  /** The key that a person has granted to the program with this device code, or the error. */
  async redeem(
    deviceCode: string,
  ): Promise<{ readonly key: string; readonly granted: ValidKey } | TokenError> {
    const { client, namespace, clock, ring, keys } = this.#options;
    if (!isWellFormedKey(deviceCode)) return 'expired_token';
    await ring.appears('sha256', hashKey(deviceCode), appearMs);
    const login = ring.byText(deviceCode, 'Device')?.key;
    if (login === undefined) return 'expired_token';
    const { uid, name } = login.metadata;
    const now = clock.monotonic();
    const last = this.#polls.get(uid);
    this.#polls.set(uid, now);
    // Half a second for the network.
    if (last !== undefined && now - last < pollSeconds * 1000 - 500) return 'slow_down';
    const answer = login.status?.deviceAnswer;
    if (answer === undefined) return 'authorization_pending';
    const granted = ring.named(keyNameOf(uid));
    if (answer === 'Granted' && granted === undefined) return 'authorization_pending';
    try {
      await client.delete(apiKeys, namespace, name, { uid });
    } catch (error) {
      if (isNotFound(error) || isConflict(error)) return 'expired_token';
      throw error;
    }
    this.#polls.delete(uid);
    if (answer === 'Refused' || granted === undefined) {
      // A grant whose answer could not be stored has left it.
      if (granted !== undefined) await this.#remove(granted.key);
      return 'access_denied';
    }
    const key = keys
      .sessionSealKeys()
      .map((sealKey) => generateKey(randomOf(sealKey, uid)))
      .find((text) => hashKey(text) === granted.key.spec.sha256);
    return key === undefined ? 'expired_token' : { key, granted };
  }

  /** Stores the answer to the version that the person saw; false if it has changed since. */
  async #answer(
    { name, uid, resourceVersion }: PendingLogin,
    deviceAnswer: 'Granted' | 'Refused',
  ): Promise<boolean> {
    const { client, namespace, feed } = this.#options;
    try {
      await client.mergePatch(
        apiKeys,
        namespace,
        name,
        { metadata: { uid, resourceVersion }, status: { deviceAnswer } },
        { subresource: 'status' },
      );
    } catch (error) {
      if (isNotFound(error) || isConflict(error)) return false;
      throw error;
    }
    await feed.settled(name, (seen) => seen?.status?.deviceAnswer !== undefined);
    return true;
  }

  async #remove({ metadata: { namespace, name, uid } }: ApiKey): Promise<void> {
    await unlessChanged(this.#options.client.delete(apiKeys, namespace, name, { uid }));
  }

  #pending(): readonly ApiKey[] {
    const { lookup, clock } = this.#options;
    return lookup
      .apiKeysOf(deviceLoginOwner)
      .filter(
        ({ spec }) =>
          spec.signIn === 'Device' && Date.parse(spec.expirationTime ?? '') > clock.now(),
      );
  }

  /** Deletes the logins that have expired, and returns the others. */
  async #withoutExpired(): Promise<readonly ApiKey[]> {
    const { lookup } = this.#options;
    const pending = this.#pending();
    const names = new Set(pending.map(({ metadata }) => metadata.name));
    for (const key of lookup.apiKeysOf(deviceLoginOwner)) {
      if (key.spec.signIn !== 'Device' || names.has(key.metadata.name)) continue;
      await this.#remove(key);
    }
    return pending;
  }
}

/**
 * The form of a user code in the cluster. A plain hash of a code, which has 35 bits, could be
 * reversed by whoever may list ApiKeys, and that one could answer the login.
 */
const userCodeHash = (sealKey: BinaryLike, userCode: string): string =>
  createHmac('sha256', sealKey).update(`user-code/${userCode}`).digest('hex');

const keyNameOf = (uid: string): string => `key-${uid}`;

/** A stream of bytes that derives from a key and a UID: a repetition has the same bytes. */
function randomOf(sealKey: BinaryLike, uid: string): RandomBytes {
  const key = createHmac('sha256', sealKey).update('device-logins').digest();
  let block = 0;
  return (count) => {
    const blocks: Buffer[] = [];
    for (let bytes = 0; bytes < count; bytes += 32)
      blocks.push(createHmac('sha256', key).update(`${uid}/${block++}`).digest());
    return Buffer.concat(blocks).subarray(0, count);
  };
}
