import type { AgentEvents } from '../agent/events.ts';
import type { SandboxKeys } from '../agent/keys.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Clock } from '@conversation-operator/kube/clock';
import type { ApiKey } from '../resources/api-key.ts';
import type { CachedConversation } from '../resources/cached-conversation.ts';
import type { Sandbox } from '../resources/sandbox.ts';
import type { KeyRing } from './auth/key-ring.ts';
import type { RandomBytes } from './auth/key.ts';
import type { GitDirectory } from './git/directory.ts';
import type { AgentReads } from './limits/agent-reads.ts';
import type { SlowReaderGuard } from './limits/slow-reader-guard.ts';
import type { ObjectFeed } from './lookup/object-feed.ts';
import type { StorageCaps } from './lookup/storage-caps.ts';
import type { ResourceLookup } from './lookup/resource-lookup.ts';
import type { StartTextReader } from './lookup/start-texts.ts';
import type { Exposure } from './presenters/exposure.ts';
import type { OpenStreams } from './http/open-streams.ts';

/** What routes are made with. */
export interface Services {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly lookup: ResourceLookup;
  readonly startTexts: StartTextReader;
  readonly caps: StorageCaps;
  readonly feeds: {
    readonly conversations: ObjectFeed<CachedConversation>;
    readonly sandboxes: ObjectFeed<Sandbox>;
    readonly apiKeys: ObjectFeed<ApiKey>;
  };
  readonly exposure: Exposure;
  readonly keys: Pick<SandboxKeys, 'sessionKey' | 'derivedIds'>;
  readonly ring: KeyRing;
  /** Maximum lifetime of a key that is made over REST; undefined: none. */
  readonly maxKeyLifetimeMs: number | undefined;
  /** How clients reach the service, without a slash at the end. */
  readonly publicUrl: () => string;
  readonly events: Pick<AgentEvents, 'search' | 'count'>;
  readonly agentReads: AgentReads;
  readonly git: Pick<GitDirectory, 'access'>;
  readonly streams: OpenStreams;
  readonly waiting: SlowReaderGuard;
  /** Of what sandboxes are made where a request does not say. */
  readonly templateName: string;
}
