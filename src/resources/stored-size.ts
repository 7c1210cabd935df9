import type { Conversation, Message } from './conversation.ts';

type Content = Message['content'][number];

/**
 * Size in bytes of what is stored of a conversation for its owner: the JSON of metadata and spec in UTF-8, without managedFields. In the
 * texts of messages a character that JSON escapes counts as itself: to serialize them takes longer than everything else that a process does
 * when it fills its cache.
 */
export function storedBytesOf({ metadata, spec }: Pick<Conversation, 'spec'> & { readonly metadata: object }): number {
  const { initialMessage, messages } = spec;
  const outline = {
    metadata: { ...metadata, managedFields: undefined },
    spec: { ...spec, initialMessage: initialMessage && emptied(initialMessage), messages: messages?.map(emptied) },
  };
  const texts = [initialMessage, ...(messages ?? [])].flatMap((message) => message?.content ?? []).flatMap(textsOf);
  return texts.reduce((sum, text) => sum + Buffer.byteLength(text), Buffer.byteLength(JSON.stringify(outline)));
}

const textsOf = ({ text, imageUrls = [] }: Content): readonly string[] => (text === undefined ? imageUrls : [text, ...imageUrls]);

const emptied = ({ content, ...message }: Message) => ({
  ...message,
  content: content.map(({ text, imageUrls, ...part }) => ({
    ...part,
    text: text === undefined ? undefined : '',
    imageUrls: imageUrls?.map(() => ''),
  })),
});
