/** The texts of a stream of messages, each put together from its parts. */
export async function textsOf(messages: AsyncIterable<{ text: AsyncIterable<string> }>): Promise<string[]> {
  const texts: string[] = []
  for await (const message of messages) {
    let text = ''
    for await (const part of message.text) text += part
    texts.push(text)
  }
  return texts
}
