import { conversationExamples } from './examples/conversations.ts';
import type { Examples } from './examples/operation-examples.ts';
import { serviceExamples } from './examples/service.ts';

/** Examples of every operation. A test parses each of them by the schema of its operation. */
export const examples: Examples = { ...conversationExamples, ...serviceExamples };
