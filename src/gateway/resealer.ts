import type { Timer } from '@conversation-operator/base/clock';
import type { Runtime } from '@conversation-operator/base/runtime';
import type { SandboxKeys } from '../agent/keys.ts';
import type { SealContext, Sealing } from '../agent/sealing.ts';
import {
  settingsOf,
  type OwnerSettings,
  type OwnerSettingsSpec,
} from '../resources/owner-settings.ts';
import type { Cache } from './lookup/cache.ts';
import type { SettingsStore } from './lookup/settings-store.ts';

/**
 * Delay before settings are encrypted again. During the rollout of a new master key, some replicas
 * encrypt under the old key and some under the new one. The delay limits them to one rewrite of an
 * object a minute.
 */
const defaultDelayMs = 60_000;
/** Delay between two writes, so that a rotation leaves connections for requests. */
const paceMs = 50;
/** Delay before a failed write of settings is tried again. */
const retryMs = 30_000;

export interface ResealerOptions extends Pick<Runtime, 'clock' | 'logger'> {
  readonly keys: Pick<SandboxKeys, 'onReplaced'>;
  readonly sealing: Sealing;
  readonly cache: Cache<OwnerSettings>;
  readonly namespace: string;
  readonly settings: Pick<SettingsStore, 'change'>;
  /** Delay before settings are encrypted again; 60 s by default. */
  readonly delayMs?: number | undefined;
}

/** The text under the current master key; unchanged if it is current, or can not be decrypted. */
function current(sealing: Sealing, sealed: string, context: SealContext): string {
  if (sealing.isCurrent(sealed)) return sealed;
  const text = sealing.open(sealed, context);
  return text === undefined ? sealed : sealing.seal(text, context);
}

/**
 * The settings with each text encrypted under the current master key; the same object if nothing
 * changes. A text whose master key is missing stays unchanged: the key may come back.
 */
export function resealed(spec: OwnerSettingsSpec, sealing: Sealing): OwnerSettingsSpec {
  const { owner, secrets = [], mcpServers = [] } = spec;
  const newSecrets = secrets.map((secret) => {
    const { name, sealed } = secret;
    return { ...secret, sealed: current(sealing, sealed, { scope: 'secret', owner, name }) };
  });
  const newServers = mcpServers.map((server) => {
    const { name, sealed } = server;
    if (sealed === undefined) return server;
    return { ...server, sealed: current(sealing, sealed, { scope: 'mcp', owner, name }) };
  });
  const isSame =
    newSecrets.every(({ sealed }, index) => sealed === secrets[index]?.sealed) &&
    newServers.every(({ sealed }, index) => sealed === mcpServers[index]?.sealed);
  if (isSame) return spec;
  return {
    ...spec,
    ...(spec.secrets === undefined ? {} : { secrets: newSecrets }),
    ...(spec.mcpServers === undefined ? {} : { mcpServers: newServers }),
  };
}

/**
 * Encrypts the settings of owners under a new master key, so that an earlier key can be removed.
 * Every replica does so. A write names the resourceVersion that was read, so that no write of
 * another replica or of an owner is lost.
 */
export class Resealer {
  readonly #options: ResealerOptions;
  /** Owners whose settings may have texts of an earlier master key. */
  readonly #waiting = new Set<string>();
  readonly #removers: (() => void)[] = [];
  #timer: Timer | undefined;
  #work: Promise<void> = Promise.resolve();
  #isOpen = false;

  constructor(options: ResealerOptions) {
    this.#options = options;
  }

  open(): void {
    const { cache, keys } = this.#options;
    this.#isOpen = true;
    const seen = (object: OwnerSettings): void => this.#check(object);
    this.#removers.push(
      cache.addHandler({ added: seen, updated: seen }),
      keys.onReplaced(() => {
        for (const object of cache.store.list()) this.#check(object);
      }),
    );
  }

  close(): void {
    this.#isOpen = false;
    for (const remove of this.#removers.splice(0)) remove();
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#waiting.clear();
  }

  /** Resolves when no write is in progress. */
  async idle(): Promise<void> {
    await this.#work;
  }

  #check(object: OwnerSettings): void {
    const { namespace, sealing, delayMs = defaultDelayMs } = this.#options;
    const { owner } = object.spec;
    const spec = settingsOf(owner, object);
    if (object.metadata.namespace !== namespace || spec === undefined) return;
    if (!isStale(spec, sealing)) return;
    this.#waiting.add(owner);
    this.#schedule(delayMs);
  }

  #schedule(delayMs: number): void {
    if (!this.#isOpen) return;
    this.#timer ??= this.#options.clock.after(delayMs, () => {
      this.#work = this.#writeNext();
    });
  }

  /** Encrypts one owner's settings again, and schedules the next write. */
  async #writeNext(): Promise<void> {
    const { settings, sealing, logger } = this.#options;
    const [owner] = this.#waiting;
    let delayMs = paceMs;
    if (owner !== undefined) {
      this.#waiting.delete(owner);
      try {
        await settings.change(owner, (stored) => resealed(stored, sealing));
        logger.info('Settings are sealed under the current master key', { owner });
      } catch (error) {
        logger.warn('Settings can not be sealed under the current master key', { owner, error });
        if (this.#isOpen) this.#waiting.add(owner);
        delayMs = retryMs;
      }
    }
    this.#timer = undefined;
    if (this.#waiting.size > 0) this.#schedule(delayMs);
  }
}

/** Whether a text of the settings is encrypted under an earlier master key that still exists. */
const isStale = ({ owner, secrets = [], mcpServers = [] }: OwnerSettingsSpec, sealing: Sealing) => {
  const places = [
    ...secrets.map(({ name, sealed }) => ({ scope: 'secret' as const, name, sealed })),
    ...mcpServers.map(({ name, sealed = '' }) => ({ scope: 'mcp' as const, name, sealed })),
  ];
  return places.some(
    ({ scope, name, sealed }) =>
      sealed !== '' &&
      !sealing.isCurrent(sealed) &&
      sealing.open(sealed, { scope, owner, name }) !== undefined,
  );
};
