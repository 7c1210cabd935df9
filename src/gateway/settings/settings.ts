import type { SettingsStore } from '../lookup/settings-store.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import type { GitHosts } from '../git/hosts.ts';
import type { Sealing } from '../../agent/sealing.ts';
import { z } from 'zod';
import { type Route, endpoints, ownConversation } from '../http/route.ts';
import {
  mcpConfigSchema,
  presentMcpServers,
  changedSettings,
  settingsRequestSchema,
  type SettingsRequest,
} from './settings-change.ts';
import { nullableText, pageSchema } from '../presenters/schemas.ts';
import { refuseModel } from '../conversations/start-request.ts';
import { unusedParameter, conversationParams } from '../http/fields.ts';
import { secretRoutes } from './secrets.ts';

const { get, post, patch } = endpoints('settings');

const nothing = z.object({});
const page = pageSchema(nothing);
const emptyPage = { items: [], next_page_id: null };

interface Constant {
  readonly summary: string;
  /** Names of query parameters that clients send and that are ignored. */
  readonly parameters?: readonly string[];
  /** The response, by default an empty page. */
  readonly answer?: z.ZodType;
  readonly json?: object;
}

const constantRoute = (
  path: string,
  operationId: string,
  { summary, parameters = [], answer = page, json = emptyPage }: Constant,
): Route =>
  get(path, operationId, {
    summary,
    query: z.object(
      Object.fromEntries(
        parameters.map((name) => [name, unusedParameter('the answer is always the same.')]),
      ),
    ),
    responses: { 200: answer },
    handle: () => ({ json }),
  });
const pageParameters = ['limit', 'page_id'] as const;

/** Endpoints with an empty result. The official web UI would show an error message for a 404. */
export const unsupportedRoutes: readonly Route[] = [
  constantRoute('/api/organizations', 'listOrganizations', {
    summary: 'Organizations: there are none, an API key belongs to an owner',
    answer: z.object({ items: z.array(nothing), current_org_id: z.null() }),
    json: { items: [], current_org_id: null },
  }),
  constantRoute('/api/v1/settings/profiles', 'listModelProfiles', {
    summary: 'Profiles of models: there are none, models are configured with the sandboxes',
    answer: z.object({ profiles: z.array(nothing), active_profile: z.null() }),
    json: { profiles: [], active_profile: null },
  }),
  constantRoute('/api/v1/config/models/search', 'searchModels', {
    summary: 'Models to choose from: there are none, they are configured with the sandboxes',
    parameters: [...pageParameters, 'query', 'verified__eq', 'provider__eq'],
  }),
  constantRoute('/api/v1/config/providers/search', 'searchModelProviders', {
    summary: 'Providers of models to choose from: there are none',
    parameters: [...pageParameters, 'query', 'verified__eq'],
  }),
  constantRoute('/api/v1/git/installations/search', 'searchGitInstallations', {
    summary:
      'Installations of an app on a git host: there are none, repositories are found by their name or URL',
    parameters: [...pageParameters, 'provider'],
  }),
];

const settingsSchema = z.object({
  llm_api_key_set: z
    .literal(true)
    .describe('Models and their keys are configured with the sandboxes, not by their users.'),
  llm_model: z.string().describe('Model of new conversations that name none.'),
  own_llm_model: nullableText.describe('Your own choice of it; null: the default.'),
  default_llm_model: nullableText.describe(
    'The model without a choice of yours; null: that of the agent.',
  ),
  provider_tokens_set: z
    .record(z.string(), z.string().nullable())
    .describe('The configured git hosts: provider → null.'),
  mcp_config: mcpConfigSchema.describe('Your servers of the Model Context Protocol, by name.'),
  git_user_name: nullableText.describe('Author of the commits of your agents; null: their choice.'),
  git_user_email: nullableText,
  git_co_author: z.boolean().describe('Whether your commits name the agent as their co-author.'),
});
export type SettingsRecord = z.output<typeof settingsSchema>;
const profilesSchema = z.object({
  profiles: z.array(z.object({ id: z.string() })),
  active_agent_profile_id: z.null(),
});
const skillSchema = z.object({ name: z.string() });

interface SettingsNeeds {
  readonly lookup: ResourceLookup;
  readonly settings: SettingsStore;
  readonly sealing: Sealing;
  readonly gitHosts: GitHosts;
  readonly templateName: string;
}

/** Endpoints that the official command line and web UI call first. */
export const settingsRoutes = ({
  lookup,
  settings: store,
  sealing,
  gitHosts,
  templateName,
}: SettingsNeeds): readonly Route[] => {
  const settings = (owner: string): z.output<typeof settingsSchema> => {
    const template = lookup.templates().find(({ metadata }) => metadata.name === templateName);
    const { model, git, mcpServers = [] } = store.of(owner);
    const defaultModel = template?.spec.agent.model;
    return {
      llm_api_key_set: true,
      llm_model: model ?? defaultModel ?? 'default',
      own_llm_model: model ?? null,
      default_llm_model: defaultModel ?? null,
      provider_tokens_set: Object.fromEntries(
        Object.keys(gitHosts).map((provider) => [provider, null]),
      ),
      mcp_config: presentMcpServers(mcpServers, owner, sealing),
      git_user_name: git?.name ?? null,
      git_user_email: git?.email ?? null,
      git_co_author: git?.coAuthor ?? true,
    };
  };
  const handle = ({ owner }: { readonly owner: string }) => ({ json: settings(owner) });
  const save = {
    body: settingsRequestSchema,
    responses: { 200: settingsSchema },
    problems: ['model-not-allowed', 'secret-unreadable', 'conflict'] as const,
    handle: async ({ owner, body }: { readonly owner: string; readonly body: SettingsRequest }) => {
      if (typeof body.model === 'string')
        refuseModel(body.model, await lookup.template(templateName), {
          path: body.modelPath,
          templateName,
        });
      await store.change(owner, (stored) => changedSettings(stored, body, sealing));
      return { json: settings(owner) };
    },
  };
  return [
    get('/api/v1/settings', 'getSettings', {
      summary:
        'Your settings: the model of new conversations, the configured git hosts, the author of commits and MCP servers, without the values of headers and environments',
      responses: { 200: settingsSchema },
      handle,
    }),
    post('/api/v1/settings', 'saveSettings', {
      summary: 'Change some of your settings; the others stay as they are',
      ...save,
    }),
    patch('/api/v1/settings', 'updateSettings', { summary: 'The same as POST', ...save }),
    get('/api/settings', 'getAgentSettings', {
      summary: 'The same, at the path that clients use which take the service for an agent',
      responses: { 200: settingsSchema },
      handle,
    }),
    constantRoute('/api/agent-profiles', 'listAgentProfiles', {
      summary: 'Profiles of agents: there are none',
      answer: profilesSchema,
      json: { profiles: [], active_agent_profile_id: null },
    }),
    constantRoute('/api/v1/skills/search', 'searchSkills', {
      summary: 'Skills of all agents: there are none, skills come with repositories',
      parameters: pageParameters,
      answer: pageSchema(skillSchema),
    }),
    endpoints('conversations').get(
      '/api/v1/app-conversations/{id}/skills',
      'listConversationSkills',
      {
        summary: 'Skills that the service has given a conversation: none',
        params: conversationParams,
        responses: { 200: z.object({ skills: z.array(skillSchema) }) },
        problems: ['not-found'],
        handle: async (call) => {
          await ownConversation(lookup, call);
          return { json: { skills: [] } };
        },
      },
    ),
  ];
};

type Dependencies = Parameters<typeof settingsRoutes>[0] & Parameters<typeof secretRoutes>[0];

export const routesOfSettings = (needs: Dependencies): readonly Route[] => [
  ...unsupportedRoutes,
  ...settingsRoutes(needs),
  ...secretRoutes(needs),
];
