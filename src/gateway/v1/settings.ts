import { z } from 'zod';
import { openRoute, type Route } from '../http/route.ts';
import type { Services } from '../services.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { pageSchema } from '../presenters/schemas.ts';
import { endpoints } from './endpoints.ts';
import { ownConversation } from './own-objects.ts';
import { conversationParams } from './schemas.ts';
import { constantRoute } from './unsupported.ts';

const { get } = endpoints('settings');

const settingsSchema = z.object({
  llm_api_key_set: z
    .literal(true)
    .describe('Models and their keys are configured with the sandboxes, not by their users.'),
  llm_model: z.string(),
  provider_tokens_set: z
    .record(z.string(), z.string().nullable())
    .describe('The configured git hosts: provider → null.'),
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
  const handle = () => ({ json: settings() });
  return [
    get('/api/v1/settings', 'getSettings', {
      summary: 'Which model agents use by default, and the configured git hosts',
      responses: { 200: settingsSchema },
      handle,
    }),
    get('/api/settings', 'getAgentSettings', {
      summary: 'The same, at the path that clients use which take the service for an agent',
      responses: { 200: settingsSchema },
      handle,
    }),
    constantRoute(
      '/api/agent-profiles',
      'listAgentProfiles',
      'Profiles of agents: there are none',
      profilesSchema,
      { profiles: [], active_agent_profile_id: null },
    ),
    constantRoute(
      '/api/v1/skills/search',
      'searchSkills',
      'Skills of all agents: there are none, skills come with repositories',
      pageSchema(skillSchema),
    ),
    endpoints('conversations').get(
      '/api/v1/app-conversations/{id}/skills',
      'listConversationSkills',
      {
        summary: 'Skills that the service has given a conversation: none',
        params: conversationParams,
        responses: { 200: z.object({ skills: z.array(skillSchema) }) },
        problems: ['not-found'],
        handle: async (call) => {
          await ownConversation(services, call);
          return { json: { skills: [] } };
        },
      },
    ),
    openRoute({
      method: 'post',
      path: '/oauth/device/authorize',
      operationId: 'authorizeDevice',
      tag: 'settings',
      summary: 'Login by a code: there is none, and the answer says where keys come from',
      responses: {},
      problems: ['no-device-login'],
      handle: () => {
        throw new ProblemError('no-device-login', noDeviceLogin);
      },
    }),
  ];
};
