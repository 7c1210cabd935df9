import type { CommonNeeds } from '../controller-spec.ts';
import { found } from '@conversation-operator/kube/errors';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import type { AgentMcpServer } from '../../agent/agent.ts';
import { mcpValuesOf, type Sealing } from '../../agent/sealing.ts';
import type { NamedSecret } from '../../agent/redaction.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { conversations } from '../../resources/conversation.ts';
import {
  ownerSettings,
  settingsNameOf,
  settingsOf,
  type OwnerMcpServer,
  type OwnerSettingsSpec,
} from '../../resources/owner-settings.ts';

export interface OwnerSettingsReaderOptions extends CommonNeeds {
  readonly sealing: Sealing;
}

/**
 * Time for which the settings stay in memory for one start, whose stages read the settings twice.
 * Another start reads the settings again, because the owner may have changed them.
 */
const freshMs = 2_000;
/** Maximum starts whose settings are in memory. */
const maxStarts = 2_000;

/** Reads the settings of owners and decrypts their secrets. */
export class OwnerSettingsReader {
  readonly #options: OwnerSettingsReaderOptions;
  /** Settings by the UID of the conversation that starts. */
  readonly #recent = recentlyUsed<{ readonly atMs: number; readonly settings: OwnerSettingsSpec }>(
    maxStarts,
  );

  constructor(options: OwnerSettingsReaderOptions) {
    this.#options = options;
  }

  /** The settings of the owner of a conversation; empty if the owner has stored none. */
  async of(
    {
      metadata: { namespace, uid },
      spec: { owner },
    }: Pick<CachedConversation, 'metadata' | 'spec'>,
    signal: AbortSignal,
  ): Promise<OwnerSettingsSpec> {
    const { client, clock } = this.#options;
    const recent = this.#recent.get(uid);
    // A handover changes the owner of the conversation.
    if (recent?.settings.owner === owner && clock.monotonic() - recent.atMs < freshMs)
      return recent.settings;
    const stored = await found(
      client.get(ownerSettings, namespace, settingsNameOf(owner), { signal }),
    );
    const settings = settingsOf(owner, stored) ?? { owner };
    this.#recent.set(uid, { atMs: clock.monotonic(), settings });
    return settings;
  }

  /**
   * The secrets that the agent of a conversation may have: those of its owner, of its start, and of
   * MCP servers. A value that can not be decrypted is omitted, and no agent gets it either.
   */
  async secretsOf(
    conversation: Pick<CachedConversation, 'metadata' | 'spec'>,
    signal: AbortSignal,
  ): Promise<readonly NamedSecret[]> {
    const { client, sealing } = this.#options;
    const { namespace, name: id, uid } = conversation.metadata;
    const { owner } = conversation.spec;
    const { secrets: owned = [], mcpServers = [] } = await this.of(conversation, signal);
    // Caches lack the encrypted values of conversations.
    const stored =
      conversation.spec.secrets === undefined
        ? undefined
        : await found(client.get(conversations, namespace, id, { signal }));
    const ofStart = stored?.metadata.uid === uid ? (stored.spec.secrets ?? []) : [];
    return [
      ...owned.map(({ name, sealed }) => ({
        name,
        value: sealing.open(sealed, { scope: 'secret', owner, name }),
      })),
      ...ofStart.map(({ name, sealed }) => ({
        name,
        value: sealing.open(sealed, { scope: 'start', owner, conversation: id, name }),
      })),
      ...mcpServers
        .flatMap((server) =>
          Object.entries(mcpValuesOf(server, owner, sealing) ?? {}).map(([name, value]) => ({
            name: `${name} of ${server.name}`,
            value,
          })),
        )
        // The token of an Authorization header is also a secret on its own, without the scheme.
        .flatMap(({ name, value }) => [
          { name, value },
          { name: `${name}, token`, value: value.replace(/^(Basic|Bearer|Token) +/i, '') },
        ]),
    ].flatMap(({ name, value }) => (value === undefined ? [] : [{ name, value }]));
  }

  /** The owner's MCP servers, except those whose headers or environment can not be decrypted. */
  mcpServersOf({ owner, mcpServers = [] }: OwnerSettingsSpec): readonly AgentMcpServer[] {
    return mcpServers.flatMap((server) => {
      const secrets = mcpValuesOf(server, owner, this.#options.sealing);
      if (secrets !== undefined) return [serverOf(server, secrets)];
      this.#options.logger.warn('an MCP server of an owner was left out: its values do not open', {
        owner,
        server: server.name,
      });
      return [];
    });
  }
}

const serverOf = (
  { name, type = 'http', url, command = '', args = [] }: OwnerMcpServer,
  secrets: Readonly<Record<string, string>>,
): AgentMcpServer =>
  url === undefined
    ? { name, command, args, env: secrets }
    : { name, url, transport: type, headers: secrets };
