import { z } from 'zod';
import { confirmationPolicies } from '../../resources/agent-settings.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { Message } from '../../resources/conversation.ts';
import { parseUuid } from '@conversation-operator/kube/uuid';
import type { StartTexts } from '../lookup/start-texts.ts';
import { nullableText } from './schemas.ts';

/** The annotation of conversations whose id the client has chosen. */
export const chosenIdAnnotation = 'conversation-operator.dev/chosen-id';

const contentSchema = z.union([
  z.object({ type: z.literal('text'), text: z.string() }),
  z.object({ type: z.literal('image'), image_urls: z.array(z.string()) }),
]);

/** The start request as it is echoed: with defaults filled in, without what was ignored. */
export const startRequestSchema = z.object({
  conversation_id: nullableText,
  initial_message: z
    .object({ role: z.string(), content: z.array(contentSchema), run: z.boolean() })
    .nullable(),
  selected_repository: nullableText,
  selected_branch: nullableText,
  git_provider: nullableText,
  title: nullableText,
  trigger: nullableText,
  pr_number: z.array(z.int()),
  parent_conversation_id: nullableText,
  llm_model: nullableText,
  agent_type: nullableText,
  system_message_suffix: nullableText,
  tools: z.array(z.string()).nullable(),
  confirmation_policy: z.enum(confirmationPolicies).nullable(),
  sandbox_id: nullableText,
  sandbox_spec_id: nullableText,
  public: z.boolean().nullable(),
});

const messageView = ({ role, content, run }: Message) => ({
  role,
  content: content.map(({ type, text, imageUrls }) =>
    type === 'text' ? { type, text: text ?? '' } : { type, image_urls: [...(imageUrls ?? [])] },
  ),
  run,
});

export function presentStartRequest(
  { metadata, spec }: CachedConversation,
  texts: StartTexts,
): z.output<typeof startRequestSchema> {
  return {
    conversation_id: metadata.annotations?.[chosenIdAnnotation] === 'true' ? metadata.name : null,
    initial_message: texts.message === undefined ? null : messageView(texts.message),
    selected_repository: spec.repository?.name ?? null,
    selected_branch: spec.repository?.branch ?? null,
    git_provider: spec.repository?.provider ?? null,
    title: spec.title ?? null,
    trigger: spec.trigger ?? null,
    pr_number: [...(spec.prNumbers ?? [])],
    parent_conversation_id:
      spec.parent === undefined ? null : (parseUuid(spec.parent) ?? spec.parent),
    llm_model: spec.agent?.model ?? null,
    agent_type: spec.agent?.type ?? null,
    system_message_suffix: texts.systemMessageSuffix ?? null,
    tools: spec.agent?.tools === undefined ? null : [...spec.agent.tools],
    confirmation_policy: spec.agent?.confirmationPolicy ?? null,
    sandbox_id: spec.sandboxName ?? null,
    sandbox_spec_id: spec.templateName,
    public: spec.public ?? null,
  };
}
