import { parseAllDocuments } from 'yaml';
import { z } from 'zod';

const objectSchema = z.object({
  kind: z.enum(['ConversationQuota', 'SandboxTemplate'], {
    error: 'must be ConversationQuota or SandboxTemplate',
  }),
  metadata: z.object({
    name: z.string('must be the name of the object'),
    namespace: z.string('must be the namespace of the object'),
    labels: z.record(z.string(), z.string()).default({}),
  }),
  spec: z.record(z.string(), z.unknown(), 'must be an object'),
});

export type InitialObject = z.output<typeof objectSchema>;

/** YAML documents, each of which is a ConversationQuota or a SandboxTemplate. Default: none. */
export const initialObjects = z
  .string()
  .default('')
  .transform((text, context) => {
    const documents = parseAllDocuments(text);
    const broken = [...documents].flatMap(({ errors }) => errors)[0];
    if (broken === undefined) return [...documents].map((each) => each.toJS() as unknown);
    context.addIssue(`must be documents of YAML: ${broken.message.split('\n', 1)[0] ?? ''}`);
    return z.NEVER;
  })
  .transform((documents) => documents.filter((document) => document !== null))
  .pipe(z.array(objectSchema));
