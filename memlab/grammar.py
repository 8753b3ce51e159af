"""What a sentence asks for, in English and in Chinese: grammar only, never a topic.

`RuleModel` needs to tell a lasting wish from a passing one, an order from a question, and a content
word from a word that every sentence has. Regular expressions do that badly but openly: whoever
wants to know why it understood something can read why.
"""

from __future__ import annotations

import hashlib
import re

from memlab.text import fold, terms

# What the task asks for: grammar only, never a topic.

_LEAD = re.compile(
    r"(?:(?:please|kindly|ok(?:ay)?|hey|hi|hello|so|and|also|oh|well|btw|by the way|thanks|then"
    r"|fyi|just so you know|for (?:the record|(?:future|your) reference))\b[\s,:!]*"
    r"|(?:it|i)(?:['’]d| would) (?:be \w+|appreciate it) if you (?:could|would|can)\s+"
    r"|(?:can|could|would|will) you\b[\s,]*|i(?:['’]d| would) like you to\s+|i (?:want"
    r"|need) you to\s+|you (?:should|must|can)\s+|(?:make sure|be sure)(?: you| to)?\s+"
    r"|[请你您,，]+|麻烦|帮我|给我|替我|能不能|能否|可不可以|可以|能|顺便|另外|还有|一定要?|务必"
    r"|对了)*",
    re.I,
)
_POLITE = re.compile(r"\b(?:can|could|would|will) you\b|能|可以|可不可以", re.I)
_ASKS = re.compile(
    r"(?:what|who|whom|whose|where|when|why|how|which|is|are|am|was|were|do|does|did|has|have"
    r"|had|should"
    r"|shall|may|might|can|could|would|will)\b(?!['’]t forget)|tell me\b|remind me (?:what|who"
    r"|where|when|how)\b"
    r"|.*(?:什么|怎么|怎样|为何|哪|谁|几[个点次]|多少|如何|是否|是不是|有没有|吗$|呢$)",
    re.I | re.S,
)
_REMEMBER = re.compile(
    r"(?:(?:remember|memori[sz]e|(?:keep|bear) (?:it |this )?in mind|(?:make"
    r"|take) (?:a )?(?:mental )?note"
    r"|note(?: down)?|(?:write|jot) (?:this |it |that )?down|(?:do not|don['’]t|never|not) forget"
    r"|(?:save|store|record)(?= (?:this|that|it|the fact|my|a note)\b|\s*[:：]))\b"
    r"(?:\s+(?:this|that|it|down|to|of|about me|for (?:me|later|next time|future reference"
    r"|the future)|the (?:fact that|following)|in your memory|as well|too)\b)*"
    r"|(?:[要也还再]*(?:记住|记下来?|记一下|记得|牢记|记着|(?:别|不要)忘[了记]?|记录一?下?"
    r"|保存一?下?|备忘))(?:一下|这件事|这一点|这点|这个)*)[\s,:;，：、;—–-]*",
    re.I,
)
_STANDING = re.compile(
    r"[\s,，]*(?:\b(?:from (?:now|here|today) on(?:wards?)?|going forward|henceforth"
    r"|in (?:the )?future"
    r"|by default|starting now)\b|从现在(?:起|开始)|从今以后|从今天起|今后|以后|往后)[\s,:，：]*",
    re.I,
)
_INSTRUCTS = re.compile(r"(?:remember|(?:do not|don['’]t|never|not) forget) to\b", re.I)
_CHANGE = re.compile(
    r"(?:change|update|set|switch|correct) my (?P<what>.+?) to (?P<to>.+)"
    r"|[把将]?我的(?P<zwhat>.+?)(?:改成|改为|换成|更新为)(?P<zto>.+)",
    re.I | re.S,
)
_STABLE = re.compile(
    r"i (?:(?:really|also|do|just|still|much|strongly|personally|now|actually|only|no longer) )*"
    r"(?:prefer|(?:like|love|enjoy|hate)(?! (?:this|that|it|your|what)\b)|dislike|detest|avoid"
    r"|favou?r|always|never"
    r"|usually|normally|generally|typically|often|rarely|can['’]?t|cannot|can not|live|work"
    r"|come from|was born|go by|use|speak|eat|drink|own|study|teach"
    r"|(?:don['’]t|do not) (?!know|understand|see|think|get|remember|mind|have|need|want)\w+)\b"
    r"|i(?:['’]m| am) (?!(?:\w+ing|not sure|sure|sorry|so|tired|hungry|thirsty|ready|done|back"
    r"|here|glad|happy"
    r"|afraid|confused|stuck|curious|lost|busy|late|sick|bored|fine|ok|okay|good|in|on|at)\b)"
    r"|i(?:['’]ve| have) (?:got )?(?:an?|no|\d+|two|three|four|many)\b"
    r"(?! (?:\w+ )?(?:question|problem|issue|request|idea|doubt|favou?r))"
    r"|my\b.+?(?:\b(?:is|are|has|have|means)\b|['’]s\b)|call me\b|(?:always|never)\b"
    r"|we(?:['’]ve| have)? (?:decided|agreed|chosen|chose|settled)\b"
    r"|我(?:一直|平时|也|很|最|更|比较|特别|非常|真的|还是|都|每天|现在)*(?:喜欢|偏好|偏爱|讨厌"
    r"|厌恶|爱|总是|总|从不"
    r"|从来不|习惯|通常|一般|叫|姓|是|住|不能|不(?![知明懂确清太是很想要会用对]))"
    r"|我对.+过敏|我在.+(?:工作|上班)|我的.+?(?:是|叫|为)|我们(?:决定|选定|选择|约定|采用)|叫我"
    r"|称呼我|总是|永远",
    re.I | re.S,
)
_ONLY_NOW = re.compile(  # beats even 'remember'
    r"\b(?:(?:just|only) (?:for )?(?:this|today|now|once)|for now|for once|for the moment"
    r"|(?:today|now) only|this (?:once|one time)|temporarily|for a (?:moment|while|change))\b"
    r"|[只就仅先](?:限|用)?[这今本][次一天回]|这一?次[先就]|暂时|先这样|临时|仅此一次",
    re.I,
)
_NOW = re.compile(
    r"\b(?:this time|today|tonight|right now|at the moment|currently|this (?:week|morning"
    r"|afternoon|evening|session|conversation))\b|这一?次|这一?回|本次|今天|今晚|目前|眼下",
    re.I,
)
_FORGET = re.compile(
    r"(?:forget|delete|remove|erase|discard|wipe|clear|drop|unlearn|get rid of|stop remembering"
    r"|no longer remember|(?:do not|don['’]t) remember)\b(?: (?:that|about|the fact that"
    r"|everything about)\b)*"
    r"|[把将](?P<what>.+?)(?:忘记|忘掉|忘了|删除|删掉|删去|清除)掉?"
    r"|忘记|忘掉|忘了|删除|删掉|删去|清除|抹掉|(?:不要|别|不用|不必)再?(?:记住|记得|记)",
    re.I | re.S,
)
_WRITE = re.compile(
    r"(?:write|create|make|build|generate|code|produce|develop|implement|give me|i (?:want|need)"
    r"|i['’]d like)\b"
    r".*?(?:\b(?:files?|programs?|scripts?|apps?|applications?)\b|[\w-]\.(?:py|txt)\b)"
    r"|.{0,12}?(?:写|创建|生成|编写|制作|新建|开发|做).*?(?:程序|脚本|文件|应用|\.py|\.txt|app)",
    re.I | re.S,
)
_FILE = re.compile(r"(?<![\w./\\:-])(\w[\w-]{0,99}\.(?:py|txt))(?![\w/\\-]|\.\w)", re.A | re.I)
_SENTENCE = re.compile(
    r"(?<!\bDr\.)(?<!\bMr\.)(?<!\bMs\.)(?<!\bMrs\.)(?<!\bSt\.)(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\b[A-Z]\.)"
    r"(?<=[.!?])\s+|(?<=[。！？；])\s*|\n+"
)
_BUT = re.compile(r"\s*[,;]?\s+(?:but|though|however),?\s+|[，；](?:但是?|不过|可是)[，]?", re.I)


_THEN = re.compile(
    r",?\s+(?:and then|and|then)\s+(?=(?:please |also )*(?:remember|keep in mind|don['’]t forget"
    r"|forget)\b)"
    r"|,\s+(?:and then|and|then)\s+(?=(?:please |also )*(?:write|create|make|build|generate)\b)"
    r"|[，,；]\s*(?:并且?|然后|再|请|顺便|同时)+(?=记|别忘|不要忘|忘|删|写|创建|生成)",
    re.I,
)


def sentences(task: str) -> list[str]:
    """Return the sentences; two orders in one, or 'usually ..., but this time ...', give two."""
    found: list[str] = []
    for sentence in (part for each in _SENTENCE.split(task) for part in _THEN.split(each)):
        parts = _BUT.split(sentence.strip())
        passing = [bool(_ONLY_NOW.search(part) or _NOW.search(part)) for part in parts]
        found += parts if len(set(passing)) == 2 else [sentence.strip()]
    return [each for each in found if each]


def _core(sentence: str) -> str:
    """Return the sentence without greetings and politeness."""
    return sentence[_lead(sentence) :]


def _lead(sentence: str) -> int:
    lead = _LEAD.match(sentence)
    return lead.end() if lead else 0


def is_question(sentence: str) -> bool:
    if _is_order(sentence):
        return False
    return sentence.endswith(("?", "？", "吗", "呢")) or bool(
        _ASKS.match(sentence) or _ASKS.match(_core(sentence))
    )


def _is_order(sentence: str) -> bool:
    """Say whether it wants something done; 'could you ...?' counts, if it is clear what."""
    order = _core(sentence)
    remember = _REMEMBER.match(order)
    if sentence.endswith(("?", "？", "吗", "呢")):
        if not _POLITE.match(sentence[: _lead(sentence)].lstrip("请你您")):
            return False
        if remember:
            return not _ASKS.match(order[remember.end() :]) and remember[0].strip() != order[:-1]
    return bool(remember or _FORGET.match(order) or _WRITE.match(order))


def asks_to_write(sentence: str) -> bool:
    return bool(
        _is_order(sentence)
        and not _REMEMBER.match(_core(sentence))
        and _WRITE.match(_core(sentence))
    )


def to_forget(task: str) -> list[str]:
    """Return what is to be forgotten, in the user's words."""
    found = []
    for sentence in sentences(task):
        order = _core(sentence)
        forget = _FORGET.match(order)
        if forget and _is_order(sentence) and not _REMEMBER.match(order):
            found.append((forget["what"] or order[forget.end() :]).strip(" .!?。！？,，:：吗了"))
    return found


def wishes(task: str) -> list[tuple[str, str]]:
    """Return kind and value of what is to be remembered for good, in the user's words."""
    left = sentences(task)
    found: list[tuple[str, str]] = []
    while left:
        sentence = left.pop(0)
        value = _wish(sentence)
        if value == "":  # 'Remember this:', and it follows
            value, left = _trimmed(" ".join(left)), []
        if value:
            lasting = _STANDING.search(sentence) or _INSTRUCTS.match(_core(sentence))
            found.append(("preference" if lasting else _kind(value), value))
    return list(dict.fromkeys(found))


def _wish(sentence: str) -> str | None:
    """Return the lasting wish or fact in it; "": one is announced; None: there is none."""
    if is_question(sentence) or _ONLY_NOW.search(sentence):
        return None
    order = _core(sentence)
    remember = _REMEMBER.match(order)
    if remember:
        told = _trimmed(_STANDING.sub("", order[remember.end() :]))
        return told.removesuffix("吗").removesuffix("吧")  # 'can you remember ...?', 'do remember'
    if _FORGET.match(order) or _NOW.search(sentence):
        return None
    change = _CHANGE.match(order)
    if change and change["what"]:
        return f"my {change['what']} is {_trimmed(change['to'])}"
    if change:
        return f"我的{change['zwhat']}是{_trimmed(change['zto'])}"
    if _STANDING.search(order):
        return _trimmed(_core(_STANDING.sub("", order)))
    if asks_to_write(sentence):
        return None
    return _trimmed(order) if _STABLE.match(order) else None


def _trimmed(text: str) -> str:
    text = text.strip().lstrip("-*•").lstrip()
    return text.rstrip(".。!！?？").rstrip() if not text.endswith(("...", "…")) else text


def is_passing(sentence: str) -> bool:
    """Say whether it is meant for this once only: nothing to save, and no question."""
    if is_question(sentence) or asks_to_write(sentence) or to_forget(sentence):
        return False
    return bool(_ONLY_NOW.search(sentence) or _NOW.search(sentence)) and not _wish(sentence)


# Kinds and keys.

_DECISION = re.compile(
    r"\b(?:decided|decision|agreed|chosen?|settled on|opted|going with|will use)\b|决定|选定"
    r"|约定|采用|选用|敲定",
    re.I,
)
_PREFERENCE = re.compile(
    r"\b(?:i|my|me)\b.*\b(?:prefer\w*|like|love|enjoy|hate|dislike|detest|avoid|favou?r\w*"
    r"|always|never|usually|normally|generally|typically|often|rarely|can['’]?t|cannot|don['’]t"
    r"|do not|allergic)\b"
    r"|^(?:call me|always|never|use|answer|reply|keep|avoid|don['’]t|do not|be|please)\b"
    r"|喜欢|偏好|偏爱|讨厌|厌恶|我[最也]?爱|总是|从不|从来不|习惯|通常|过敏|我不|叫我|称呼我"
    r"|^都?(?:[请用别]|不要)",
    re.I | re.S,
)
_EPISODE = re.compile(
    r"\b(?:yesterday|ago|today|tonight|last (?:night|week|month|year|time)|this morning|earlier)\b"
    r"|昨天|前天|今天|上周|上个?月|去年|刚才|刚刚",
    re.I,
)
_PROJECT = re.compile(
    r"\b(?:our|we|project|repo(?:sitory)?|codebase|team)\b|项目|仓库|代码库|团队|我们", re.I
)


def _kind(value: str) -> str:
    if _DECISION.search(value):
        return "decision"
    if _PREFERENCE.search(value):
        return "preference"
    if _EPISODE.search(value):
        return "episode"
    return "project" if _PROJECT.search(value) else "note"


# What a statement is about.

_SUBJECT = re.compile(
    r"(?:my|the|our) (.+?)(?:['’]s(?! [\w ]+ (?:is|are)\b)| (?:is|are|has|have|means))\b"
    r"|(?:我|我们)的(.+?)(?:是|叫|为)",
    re.I,
)
_PLACE = re.compile(
    r"i(?:['’]m| am)? (?:\w+ly |now )?(live|called|named)\b|(call) me\b|我现?在?(住|叫)|(叫)我",
    re.I,
)
_MANNER = re.compile(
    r"(?:i )?(?:always |please )*(\w+) (in|with|using|as) \S|(?:请|总是|我)*(用)\S+?(\w\w)$", re.I
)
_ADDS = re.compile(r"\b(?:hate|dislike|detest|avoid|allergic)\b|讨厌|厌恶|不喜欢|过敏", re.I)
_REPLACES = re.compile(
    r"\b(?:instead|no longer|not any ?more|any ?more|actually|now)\b|不再|而是|改成|改为|换成"
    r"|其实|现在",
    re.I,
)
_PREPOSITION = re.compile(
    r"\b(?:on|in|at|for|to|with|when|if|because|over|than|rather|and|by)\b.*", re.I | re.S
)


def new_key(value: str) -> str:
    """Return up to four content words; where none is ASCII, a digest, as `remember` makes it."""
    subject = _SUBJECT.match(value)
    stated = fold(subject[1] if subject and subject[1] else value)
    found = re.findall(r"[a-z0-9]+", re.sub(r"['’][a-z]+", "", stated))
    found = [word for word in dict.fromkeys(found) if wanted(word) not in ([], [LIKING])][:4]
    if not found:
        return "auto." + hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()[:16]
    key = "_".join(found)
    return (key if key[0].isalpha() else f"about_{key}")[:64]


def about(kind: str, value: str) -> frozenset[str]:
    """Return what a statement is about: two that are about the same do not stand side by side."""
    subject = _SUBJECT.match(value)
    if subject:
        return frozenset(wanted(subject[1] or subject[2]))
    for name, frame in (("place", _PLACE), ("manner", _MANNER)):
        found = frame.match(value)
        if found:
            return frozenset([name, *(fold(part) for part in found.groups() if part)])
    if kind == "preference" and not _ADDS.search(value):  # 'short answers', 'long answers'
        head = wanted(_PREPOSITION.sub("", value))[-1:]
        return frozenset(head) - {LIKING}
    return frozenset(wanted(value)) - {LIKING}


# Words.

_GENERAL = frozenset(
    terms(
        "a an the this that these those it its he she they them we us our you your i me my mine "
        "myself s t am is are was were be been being do does did done doing don didn doesn has "
        "have had having can cannot could would should will shall may might must not no nor and "
        "or but if then so than as of at by for from in into on onto to with without about over "
        "under up down out off again there here what which who whom whose when where why how "
        "all any some each every other both more most much many very too also only just even "
        "still ever please thank thanks ok okay hello hi hey tell say said ask asked know knew "
        "known remember remembered recall forget forgot mind note memory give get got let make "
        "made want need let's call called thing things something anything everything one "
        "because while during it's i'm i've i'd that's what's now really usually always never "
        "often generally normally typically actually"
    )
)
_STANCE = frozenset(
    terms("prefer preferred preference like liked love enjoy hate dislike detest favour favor")
)
LIKING = "prefer"  # stands for all of them: weak, since half of all wishes share it
_ZH_LIKING = re.compile("喜欢|偏好|偏爱|讨厌|厌恶|爱")
_ZH_GENERAL = re.compile(
    "什么|怎么样?|怎样|为什么|哪里|哪个|哪些|哪儿|多少|如何|是不是|有没有|请问|告诉|知道|记得"
    "|记住|忘记|记忆|关于|事情|这个|那个"
    "|我们|你们|他们|自己|一下|总是|从不|习惯|通常|一般|以后|应该|可以|可能|已经|因为|所以|但是"
    "|如果|或者|而且|的话"
    "|[我你您他她它的了吗呢吧啊呀么是在有和与跟就都也很更最这那个请把将被给对到从为用会能要想让说问哪谁几不没]"
)


def words(text: str) -> list[str]:
    plain = _ZH_GENERAL.sub(" ", _ZH_LIKING.sub(f" {LIKING} ", text))
    return [LIKING if word in _STANCE else word for word in terms(plain) if word not in _GENERAL]


def wanted(text: str) -> list[str]:
    """Return the content words of a question or a wish, each once.

    A single Chinese character counts where it stands alone; inside a longer word it would match
    any other word that holds it.
    """
    each = list(dict.fromkeys(words(text)))
    pairs = "".join(word for word in each if len(word) == 2 and not word.isascii())
    return [word for word in each if len(word) > 1 or word not in pairs]


def replaces(value: str) -> bool:
    """Say whether a statement says that it takes the place of another."""
    return bool(_REPLACES.search(value))


def file_named(sentence: str) -> str | None:
    """Return the plain name of a `.py` or `.txt` file in it; a name with a folder is none."""
    found = _FILE.search(sentence)
    return found[1] if found else None
