import { z } from 'zod';
import { described, listMap, optional, text, validations } from './schema.ts';

/** Agents that speak the Agent Client Protocol, as named in `packages/agent-server/src/acp`. */
export const acpAgentNames = ['codex', 'claude', 'qwen', 'opencode', 'gemini', 'kimi'] as const;
export type AcpAgentName = (typeof acpAgentNames)[number];

/** Maximum parts of a command line, including the program. */
const maxCommandParts = 32;

const variables = () => z.record(text(128), text(4096)).meta({ maxProperties: 64 });

/** A CEL rule instead of a pattern, because caches drop stored templates that violate a pattern. */
const variableRule = {
  rule: "!has(self.env) || self.env.all(name, name.matches('^[A-Za-z_][A-Za-z0-9_]{0,127}$'))",
  message:
    'each name in env must consist of letters, digits and underscores, without a digit at its begin',
  fieldPath: '.env',
};

/** Rules for an MCP server in a template or in the settings of an owner. */
export const mcpServerRules = [
  {
    rule: 'has(self.url) != has(self.command)',
    message:
      'exactly one of url and command must be present: url of a server that runs elsewhere, or command of one that the agent starts',
    fieldPath: '.url',
  },
  {
    rule: "!has(self.url) || self.url.matches('^https?://([A-Za-z0-9._-]+|\\\\[[0-9A-Fa-f:.]+\\\\])(:[0-9]{1,5})?([/?][A-Za-z0-9._~:/?&=%@+,;!*()-]*)?$')",
    message: 'url must be an http or https URL without user, fragment and white space',
    fieldPath: '.url',
  },
  {
    rule: '!has(self.type) || has(self.url)',
    message: 'type is allowed with url only',
    fieldPath: '.type',
  },
  {
    rule: '!has(self.args) || has(self.command)',
    message: 'args is allowed with command only',
    fieldPath: '.args',
  },
] as const;

const mcpServerSchema = z
  .object({
    name: described(z.string().min(1).max(64), 'Name of the server, which the agent shows.'),
    type: optional(
      z.enum(['http', 'sse']),
      'Transport of the server at url. Absent: http. Not every agent can use sse.',
    ),
    url: optional(
      text(1024),
      'Address of a server that runs elsewhere, without a user. No header is sent with the requests, because the template would show its value. Exactly one of url and command is given.',
    ),
    command: optional(
      z.string().min(1).max(1024),
      'Program of a server that the agent starts in the sandbox. Exactly one of url and command is given.',
    ),
    args: optional(z.array(text(1024)).max(maxCommandParts), 'Arguments of command.'),
    env: optional(
      variables(),
      'Environment of command. Readers of the template and of the pod see the values: no secrets.',
    ),
  })
  .meta(
    validations(
      ...mcpServerRules,
      {
        rule: '!has(self.env) || has(self.command)',
        message: 'env is allowed with command only',
        fieldPath: '.env',
      },
      variableRule,
    ),
  );

export const acpSettingsSchema = z
  .object({
    agent: optional(
      z.enum(acpAgentNames),
      'Name of the agent, whose program must be in the image. A sandbox keeps the agent of its first pod. Exactly one of agent and command is given.',
    ),
    command: optional(
      z.array(z.string().min(1).max(1024)).min(1).max(maxCommandParts),
      'Program and arguments of any other agent. Exactly one of agent and command is given.',
    ),
    mode: optional(
      z.string().min(1).max(64),
      'Mode of the sessions, by a name that the agent has. Absent: the mode that fits the confirmation policy.',
    ),
    env: optional(
      variables(),
      'Environment of the agent in addition to that of the container. Readers of the template and of the pod see the values: no secrets.',
    ),
    allowAlways: described(
      z.boolean().default(false),
      'True: a person may choose an option by which the agent stops asking for such a tool. False: the requests offer no such option.',
    ),
    mcpServers: optional(
      z.array(mcpServerSchema).max(16).meta(listMap('name')),
      'Servers of the Model Context Protocol, which the agent connects to in each session.',
    ),
  })
  .meta(
    validations(
      {
        rule: 'has(self.agent) != has(self.command)',
        message: `exactly one of agent and command must be present: agent is one of ${acpAgentNames.join(', ')}; command is the command line of any other agent`,
        fieldPath: '.agent',
      },
      variableRule,
    ),
  );

export type AcpSettings = z.output<typeof acpSettingsSchema>;
