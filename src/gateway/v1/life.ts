import type { StartTextReader } from '../lookup/start-texts.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import { stringify } from 'yaml';
import { z } from 'zod';
import type { KubeClient } from '@conversation-operator/kube/client';
import { kubeEvents, type KubeEvent } from '@conversation-operator/kube/core';
import { isForbidden } from '@conversation-operator/kube/errors';
import type { KubeObject } from '@conversation-operator/kube/object';
import { type Route, endpoints } from '../http/route.ts';
import { storedWithSandbox } from '../lookup/stored.ts';
import { timelineOf, timelineSchema } from '../presenters/timeline.ts';
import { startTextsOf } from './conversation-record.ts';
import { ownConversation } from './own-objects.ts';
import { conversationParams } from './schemas.ts';

const base = '/api/v1/app-conversations/{id}';
const { get } = endpoints('conversations');
/** Maximum characters of one text of a resource that is shown. */
const maxTextCharacters = 4_096;

const resourcesSchema = z.object({
  namespace: z.string(),
  yaml: z
    .string()
    .describe(
      'The Conversation and its Sandbox as stored. Texts of more than 4096 characters are shortened, and the address of the pod is left out.',
    ),
});

export type Resources = z.output<typeof resourcesSchema>;

/** What the story of a conversation needs. */
interface LifeNeeds {
  readonly client: KubeClient;
  readonly lookup: ResourceLookup;
  readonly startTexts: StartTextReader;
}

/** How a conversation came to its present state, and the resources that have it. */
export function lifeRoutes({ client, lookup, startTexts }: LifeNeeds): readonly Route[] {
  return [
    get(`${base}/timeline`, 'getTimeline', {
      summary: 'What has happened to a conversation and its sandbox, oldest first',
      params: conversationParams,
      responses: { 200: timelineSchema },
      problems: ['not-found'],
      handle: async (call) => {
        const conversation = await ownConversation(lookup, call);
        const sandbox = lookup.sandboxIn(conversation);
        const [{ steps }, ...events] = await Promise.all([
          startTextsOf(startTexts, conversation),
          eventsAbout(client, conversation),
          ...(sandbox === undefined ? [] : [eventsAbout(client, sandbox)]),
        ]);
        const known = conversation.lacksSteps ? steps : conversation.status?.start?.steps;
        return {
          json: timelineOf({ conversation, sandbox, steps: known ?? [], events: events.flat() }),
        };
      },
    }),
    get(`${base}/resources`, 'getResources', {
      summary: 'The resources of a conversation as YAML',
      params: conversationParams,
      responses: { 200: resourcesSchema },
      problems: ['not-found'],
      handle: async (call) => {
        const known = await ownConversation(lookup, call);
        const { conversation, sandbox } = await storedWithSandbox(client, known);
        const resources = [conversation, ...(sandbox === undefined ? [] : [sandbox])];
        const { namespace } = known.metadata;
        return { json: { namespace, yaml: resources.map(yamlOf).join('---\n') } };
      },
    }),
  ];
}

/** A cluster whose roles are of an earlier release does not let the gateway read Events. */
async function eventsAbout(
  client: KubeClient,
  { metadata: { namespace = '', uid } }: Pick<KubeObject, 'metadata'>,
): Promise<readonly KubeEvent[]> {
  try {
    const fieldSelector = `involvedObject.uid=${uid}`;
    return (await client.list(kubeEvents, { namespace, fieldSelector })).items;
  } catch (error) {
    if (isForbidden(error)) return [];
    throw error;
  }
}

/** Addresses in the cluster are not for clients. */
function shown(name: string, value: unknown): unknown {
  if (name === 'podIP') return undefined;
  if (typeof value !== 'string' || value.length <= maxTextCharacters) return value;
  const more = value.length - maxTextCharacters;
  return `${value.slice(0, maxTextCharacters).toWellFormed()}… ${more} characters more`;
}

const yamlOf = (object: KubeObject): string =>
  stringify(JSON.parse(JSON.stringify(object, shown)), { lineWidth: 0 });
