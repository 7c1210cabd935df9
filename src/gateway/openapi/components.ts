import { resumeRequestSchema } from '../sandboxes/sandboxes.ts';
import { z } from 'zod';
import { problemSchema } from '../errors/problem-response.ts';
import { streamEventSchema } from '../stream/stream-events.ts';
import { successSchema } from '../http/route.ts';
import { eventPage } from '../history/events.ts';
import { keyRequestSchema, apiKeySchema, issuedApiKeySchema } from '../keys/keys.ts';
import { updateRequestSchema } from '../conversations/conversations.ts';
import { sendMessageSchema } from '../presenters/message.ts';
import { startRequestSchema } from '../presenters/start-fields.ts';
import { sentSchema } from '../conversations/messages.ts';
import { legacyStartAnswer, legacyStartSchema } from '../conversations/legacy.ts';
import {
  conversationList,
  conversationPage,
  conversationSchema,
} from '../presenters/conversation.ts';
import { quotaSchema } from '../quota/quota-record.ts';
import { sandboxSpecList, sandboxSpecPage, sandboxSpecSchema } from '../sandboxes/sandbox-specs.ts';
import { sandboxList, sandboxPage, sandboxSchema } from '../presenters/sandbox.ts';
import { startTaskList, startTaskPage, startTaskSchema } from '../presenters/start-task.ts';

/** The examples of one operation, as a client sends and gets them. */
interface OperationExamples {
  /** Absent if the operation has no body. */
  readonly body?: unknown;
  /** Response bodies by HTTP status, for each success that has content. */
  readonly answers: Readonly<Record<number, unknown>>;
}

/** Examples by `operationId`. */
export type Examples = Readonly<Record<string, OperationExamples>>;

/** Schemas of responses, by their names in the OpenAPI document. */
const answers = {
  Problem: problemSchema,
  Conversation: conversationSchema,
  ConversationList: conversationList,
  ConversationPage: conversationPage,
  StartTask: startTaskSchema,
  StartTaskList: startTaskList,
  StartTaskPage: startTaskPage,
  Sandbox: sandboxSchema,
  SandboxList: sandboxList,
  SandboxPage: sandboxPage,
  SandboxSpec: sandboxSpecSchema,
  SandboxSpecList: sandboxSpecList,
  SandboxSpecPage: sandboxSpecPage,
  Quota: quotaSchema,
  ApiKey: apiKeySchema,
  IssuedApiKey: issuedApiKeySchema,
  Success: successSchema,
  Sent: sentSchema,
  EventPage: eventPage,
  StreamEvent: streamEventSchema,
  LegacyStart: legacyStartAnswer,
} as const satisfies Readonly<Record<string, z.ZodType>>;

const requests = {
  StartRequest: startRequestSchema,
  UpdateRequest: updateRequestSchema,
  KeyRequest: keyRequestSchema,
  MessageRequest: sendMessageSchema,
  ResumeRequest: resumeRequestSchema,
  LegacyStartRequest: legacyStartSchema,
} as const satisfies Readonly<Record<string, z.ZodType>>;

export type JsonSchema = Readonly<Record<string, unknown>>;

const refTo = (name: string): string => `#/components/schemas/${name}`;

const clean = ({ $schema: _schema, $id: _id, ...schema }: JsonSchema): JsonSchema => schema;

/** Later versions may add fields to responses, so additional properties stay unspecified. */
const openAnswers = ({ jsonSchema }: { jsonSchema: Record<string, unknown> }): void => {
  if (jsonSchema['additionalProperties'] === false) delete jsonSchema['additionalProperties'];
};

const conversionOf = (io: 'input' | 'output') =>
  io === 'output' ? { io, override: openAnswers } : { io };

function convertAll(
  schemas: Readonly<Record<string, z.ZodType>>,
  io: 'input' | 'output',
): Readonly<Record<string, JsonSchema>> {
  const registry = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(schemas)) registry.add(schema, { id });
  const converted = z.toJSONSchema(registry, { ...conversionOf(io), uri: refTo });
  return Object.fromEntries(
    Object.entries(converted.schemas).map(([name, schema]) => [name, clean(schema)]),
  );
}

export const componentSchemas = (): Readonly<Record<string, JsonSchema>> => ({
  ...convertAll(answers, 'output'),
  ...convertAll(requests, 'input'),
});

const names = new Map<z.ZodType, string>(
  Object.entries({ ...answers, ...requests }).map(([name, schema]) => [schema, name]),
);

/** A reference if the schema has a name, else the schema itself. */
export function schemaOf(schema: z.ZodType, io: 'input' | 'output'): JsonSchema {
  const name = names.get(schema);
  if (name !== undefined) return { $ref: refTo(name) };
  return clean(z.toJSONSchema(schema, conversionOf(io)));
}
