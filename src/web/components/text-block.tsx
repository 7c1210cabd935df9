import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

interface TextBlockProps {
  readonly label: string;
  readonly children: ComponentChildren;
  /** Called when the end of the text is visible, immediately if the whole text fits. */
  readonly onEnd?: () => void;
  /** Whether the text takes the focus when it appears. */
  readonly takesFocus?: boolean;
}

/** A text with its line breaks, which a user can scroll with the keyboard. */
export function TextBlock({ label, children, onEnd, takesFocus = false }: TextBlockProps) {
  const frame = useRef<HTMLPreElement>(null);
  useEffect(() => {
    if (takesFocus) frame.current?.focus();
  }, []);
  const check = (shown: HTMLElement | null) => {
    if (shown !== null && shown.scrollTop + shown.clientHeight >= shown.scrollHeight - 1) onEnd?.();
  };
  return (
    <pre
      ref={(element) => {
        frame.current = element;
        check(element);
      }}
      role="group"
      tabIndex={0}
      aria-label={label}
      onScroll={(event) => check(event.currentTarget)}
    >
      {children}
    </pre>
  );
}

/** A word of a right-to-left script, with its combining marks. */
const rightToLeft =
  /((?:[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]\p{M}*)+)/u;

/** Keeps a text in order: words of right-to-left scripts do not reorder the text around them. */
export const InOrder = ({ children }: { readonly children: string }) => (
  <span class="in-order">
    {children
      .split(rightToLeft)
      .map((part, index) => (index % 2 === 1 ? <bdi key={index}>{part}</bdi> : part))}
  </span>
);
