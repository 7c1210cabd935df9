import { z } from 'zod';
import { keyRoute, openRoute, type Route } from '../http/route.ts';
import type { Services } from '../services.ts';
import { notFound, ProblemError } from '../errors/problem-error.ts';
import { pageSchema } from '../presenters/schemas.ts';
import { conversationParams } from './schemas.ts';

const tag = 'settings';

const settingsSchema = z.object({
  llm_api_key_set: z.literal(true).meta({
    description: 'Models and their keys are configured with the sandboxes, not by their users.',
  }),
  llm_model: z.string(),
  provider_tokens_set: z
    .record(z.string(), z.string().nullable())
    .meta({ description: 'The configured git hosts: provider → null.' }),
});
const profilesSchema = z.object({
  profiles: z.array(z.object({ id: z.string() })),
  active_agent_profile_id: z.null(),
});
const skillSchema = z.object({ name: z.string() });

const noDeviceLogin = [
  'There is no login by a code here.',
  'Get an API key from the administrator of this service (conversation-operator keys create --owner NAME), or with a key of yours from POST /api/keys.',
  'Put it where your client reads it: the command line in the file ~/.openhands/cloud/api_key.txt, or as its API key for the cloud;',
  'the web UI in the field API Key when it is first opened.',
].join(' ');

/** Endpoints that the official command line and web UI call before everything else. */
export const settingsRoutes = (services: Services): readonly Route[] => {
  const settings = (): z.output<typeof settingsSchema> => {
    const template = services.lookup
      .templates()
      .find(({ metadata }) => metadata.name === services.templateName);
    return {
      llm_api_key_set: true,
      llm_model: template?.spec.agent.model ?? 'default',
      provider_tokens_set: Object.fromEntries(
        Object.keys(services.gitHosts).map((provider) => [provider, null]),
      ),
    };
  };
  const settingsAt = (path: string, operationId: string, summary: string) =>
    keyRoute({
      method: 'get',
      path,
      operationId,
      tag,
      summary,
      responses: { 200: settingsSchema },
      handle: () => ({ json: settings() }),
    });
  return [
    settingsAt(
      '/api/v1/settings',
      'getSettings',
      'Which model agents use by default, and the configured git hosts',
    ),
    settingsAt(
      '/api/settings',
      'getAgentSettings',
      'The same, at the path that clients use which take the service for an agent',
    ),
    keyRoute({
      method: 'get',
      path: '/api/agent-profiles',
      operationId: 'listAgentProfiles',
      tag,
      summary: 'Profiles of agents: there are none',
      responses: { 200: profilesSchema },
      handle: () => ({ json: { profiles: [], active_agent_profile_id: null } }),
    }),
    keyRoute({
      method: 'get',
      path: '/api/v1/skills/search',
      operationId: 'searchSkills',
      tag,
      summary: 'Skills of all agents: there are none, skills come with repositories',
      responses: { 200: pageSchema(skillSchema) },
      handle: () => ({ json: { items: [], next_page_id: null } }),
    }),
    keyRoute({
      method: 'get',
      path: '/api/v1/app-conversations/{id}/skills',
      operationId: 'listConversationSkills',
      tag: 'conversations',
      summary: 'Skills that the service has given a conversation: none',
      params: conversationParams,
      responses: { 200: z.object({ skills: z.array(skillSchema) }) },
      problems: ['not-found'],
      handle: async ({ owner, params }) => {
        if ((await services.lookup.conversation(owner, params.id)) === undefined)
          throw notFound('conversation');
        return { json: { skills: [] } };
      },
    }),
    openRoute({
      method: 'post',
      path: '/oauth/device/authorize',
      operationId: 'authorizeDevice',
      tag,
      summary: 'Login by a code: there is none, and the answer says where keys come from',
      responses: {},
      problems: ['no-device-login'],
      handle: () => {
        throw new ProblemError('no-device-login', noDeviceLogin);
      },
    }),
  ];
};
