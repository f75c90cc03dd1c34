"""The patterns of what must not be translated, by kind; of two that match at one place the first in PATTERNS counts.

They are also read by JavaScript (nmt/convert/javascript.py), and none may try every division of a long line.
"""

import re
from collections.abc import Iterable

DOMAINS = (
    "com|org|net|edu|gov|info|io|dev|app|eu|de|at|ch|uk|fr|it|es|nl|cz|ru|jp|cn|us|tv|br|kr|tr|ua|se|dk|fi|hu|ro|gr|pt"
    "|example|invalid|localhost|local|online|shop|club|blog|wiki|social|cloud|tech|site|store|news|xyz|biz|berlin|wien"
    "|forum|gmbh|nrw|studio|digital|saarland|academy|agency|bayern|gg|hamburg|koeln|mobi|ngo|ruhr|swiss|tirol|website|nz|mx|fm"
)  # of names without a path; with one, any ending
HYPHENATED = "top|click|link"  # also words, so only behind a name with a hyphen
FILES = (
    "txt|md|pdf|docx?|xlsx?|pptx?|od[tsp]|csv|tsv|json|xml|ya?ml|toml|ini|cfg|conf|log|html?|css|js|ts|py|cpp|java"
    "|rs|go|sh|bat|exe|dll|so|zip|gz|tar|7z|rar|iso|png|jpe?g|gif|svg|bmp|webp|tiff?|dwg|dxf|psd|stl|mp[34]|wav|avi|mkv"
    "|mov|tmx|xlf|heic|ogg|flac|epub|apk|deb|jar|sql|php|tex|db|bak|tmp|PDF|DOCX?|XLSX?|TXT|CSV|ZIP|PNG|JPE?G|HEIC|MP[34]"
    "|MOV|TIFF?|opus|aac|m4[av]|webm|mpe?g|srt|vtt|ics|vcf|eml|msg|p7s|pem|crt|csr|img|dmg|pkg|rpm|msi|lnk|[to]tf|woff2?"
    "|m3u8?|[jt]sx|vue|scss|rb|po|pst|gpx|kml|sqlite|ipynb|swift|kt|cs|hpp|lua|pl|ps1|vbs|rtf|mobi|azw3|cr2|nef|gcode|torrent"
    "|pkpass|apkg|ipa|p12|pfx|kdbx|ova|vmdk|vhdx?|m4b|cb[rz]|od[gb]|indd|blend|fbx|skp|igs|f3d|NEF|CR2|ARW|DNG|GIF|AVI|WAV|HTML?|mscz|mxl|midi?|ino|stp|3mf|dcm|fasta|parquet|npy|npz|pt|onnx|gguf|safetensors|whl|xpi|AppImage|xcf|kra|sketch"
)
EMOJI = "\U0001f000-\U0001faff\u2600-\u27bf\u2b00-\u2bff\u2190-\u21ff\u2300-\u23ff"
JOINERS = "\ufe0f\u200d\u20e3\U000e0020-\U000e007f"
DIGITS = r"\d+(?:[.,]\d+)?"
NUMBER = (
    r"(?:\+\d+(?:(?:[ /-]?\(\d+\)[ /-]?|[ /-])\d+)*|\d{1,2}\.\d{1,2}\.(?=[\s*)])"
    r"|\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?![\d.,:/-]*\d)"
    r"|(?:[+−±]|(?<!\S)-)?\d+(?:[.,:/'’–-]\d+)*(?:,(?:--?|[–—])(?=[\s).]|$))?[½⅓¼⅔¾⅛]?|[½⅓¼⅔¾⅛])"
)
SYMBOLS = (
    "[mcdk]?m|[mkµ]?g|[mcdh]?l|[kMG]?Wh|[kMm]W|[kMm]V|mA|[kMG]?Hz|[hkM]?Pa|mbar|kJ|kN|Nm|dB|px|dpi|ppm|mol|lx|lm|mmHg|°dH"
    "|[kMGT]?bit|[kMGT]i?B"
)  # of units, the same in all languages
UNIT = (
    rf"(?:(?:{SYMBOLS})(?:[²³]|\^[23])?(?:/(?:{SYMBOLS}|h|s|min)[²³]?)?(?![\w'’]|-\w)"
    r"|[VWAKN](?=[,;:)/]|\s*[.!?]?$|\s[a-zß-ü]{2}|\s/ \d))"  # elsewhere also words and initials
)
INSIDE = r"(?:[^()\n]|\([^()\n]{0,80}\)){0,80}"  # of parentheses, with others in them
# Commands of a shell that are told by their second word, and those that are told by what follows, which is no word.
GIT = (
    "add|commit|push|pull|clone|checkout|rebase|merge|status|log|diff|reset|branch|fetch|stash|init|tag|revert|switch"
    "|restore|show|bisect|cherry-pick"
)
COMMANDS = (
    rf"(?:git (?:{GIT})|docker (?:compose )?(?:up|down|run|ps|build|exec|images|pull|push|stop|start|logs|rm)"
    r"|systemctl (?:start|stop|restart|status|enable|disable|reload) [\w@.-]*\w|kubectl (?:get|apply|delete|logs) \w+"
    r"|(?:npm|yarn|pip3?|apt|apt-get|brew|conda|dnf|yum) (?:install|remove|update|upgrade)(?: [\w@./=-]*[\w/])?"
    r"|(?:npm|yarn|pnpm) run [\w:-]+)"
)
TOOLS = (
    "(?:chmod|chown|grep|ssh|scp|curl|wget|ipconfig|ifconfig|sed|awk|python3?|rsync|mkdir|xargs|npx|git|docker|npm|pip3?"
    "|kubectl)"
)
WORDS = "(?:ping|find|cat|echo|kill|touch|head|tail|sort|make|node|cargo)"  # also words of English
SHORT = "(?:tar|rm|cp|mv|ls|cd|wc)"  # also other words
ARGUMENT = (
    r"(?: (?:-{1,2}[A-Za-z](?:[\w-]*\w)?(?![\w-])(?:=[^\s,;]+)?|'[^'\n]{0,80}'|\"[^\"\n]{0,80}\""
    r"|\|(?: (?:grep \w|[a-z])\w*)?"
    r"|>>?|[\w:@+-]*(?:[/.~*=][\w./~*:@+=-]*[\w/*~]|[/~*])|\.\.|\.(?= -)|\+[rwx]{1,3}|\+?\d+)(?![\w/]))"
)
VERBS = (
    "Get|Set|New|Remove|Start|Stop|Invoke|Test|Import|Export|Write|Out|Select|Measure|Where|ForEach|Add|Clear|Copy|Move"
)
NOUNS = (
    "Item|ChildItem|Content|Object|Process|Service|Command|Location|Host|Csv|Json|Help|Date|Path|Connection|WebRequest"
)
CMDLET = rf"(?:{VERBS})-[A-Z]\w+"  # of PowerShell
COLUMN = rf"(?:[\w.*]+(?:\({INSIDE}\))?|'[^'\n]{{0,80}}'|\({INSIDE}\))"
OPERAND = rf"{COLUMN}(?:, ?{COLUMN})*(?: ?(?:=|<>|!=|[<>]=?) ?{COLUMN})?"  # of SQL
KEYWORDS = "FROM|WHERE|SET|INTO|(?:LEFT |RIGHT |INNER )?JOIN|ON|AND|OR|(?:GROUP|ORDER) BY|HAVING|LIMIT|LIKE|IN|AS"
CLAUSES = rf"(?: (?:(?:{KEYWORDS}) {OPERAND}|IS (?:NOT )?NULL|CASCADE|ASC|DESC|VALUES ?\({INSIDE}\)))"
CODE_WORD = r"(?:[A-Za-z_]\w*(?:\.\w+)+|[A-Za-z]*_\w*|[a-z]+[A-Z]\w*|[A-Za-z_]\w*\(\))"
VARIABLE = r"[A-Za-zα-ωΑ-Ω](?:\(\w(?:, ?\w)*\)|[₀-₉²³]|\^[+−-]?\w+|_\w+)?"
TERM = rf"(?:{DIGITS}(?:{VARIABLE})?(?:\^-?\w+)?|[a-zA-Z]{{2,3}}[²³]|{VARIABLE})(?!\w)"
TERMS = rf"[+−-]?{TERM}(?: ?[+*/·×−-] ?{TERM}){{0,12}}"
ELEMENT = (
    "(?:H[eg]?|L[ai]|B[aeir]?|C[adlorsu]?|N[aibe]?|O|F[e]?|M[gno]|A[lgrsu]|S[icnrbe]?|P[btd]?|K|T[il]|V|Zn|W|I|U|Xe|Kr)"
)
MOLECULE = (
    rf"(?=[A-Z]|\([A-Z][A-Za-z\d]*\)[\d₀-₉])(?=[A-Za-z()]*[\d₀-₉])"
    rf"(?:{ELEMENT}|[\d₀-₉]|\((?=[A-Z][A-Za-z\d₀-₉]*\)[\d₀-₉])|\)(?=[\d₀-₉]))+(?!\w|-\w)"
)
ANGLE = rf"\d{{1,3}}°(?: ?{DIGITS}['′])?(?: ?{DIGITS}[\"″])?"
FIELD = r"(?:(?=[A-Z]*[\d_])[A-Z][A-Z0-9_]+|(?:VOR|NACH)?NAME|ANREDE|FIRMA|DATUM|EMAIL|LINK|URL|CODE)"  # of a template
# Behind the number of a model.
PRODUCT = r" (?:Pro(?: Max)?(?! (?:und|and|et|y|o|e) )|Ultra|Lite|Mini|SE|XL|GT[IE]?)(?![\w-])"
PATTERNS = {
    "placeholder": "[\uf100-\uf2ff]",
    "bullet": r"^\s*[*+•‣▪◦●○■□►·–—-](?=\s+\S)|\[[ xX]\](?=\s)|^\s*(?:#{1,6}|>+)(?=\s+\S)",
    "emphasis": rf"\*\*\*{FIELD}\*\*\*|\*\*|~~|(?<!\S)\*(?=\w)"
    r"|(?<=\w)\*(?![\w*])|(?<!\S)\|(?!\S)|!?\[(?=[^\[\]\n]+\]\()|\]\([^()\s]+\)",
    "url": r"(?<![A-Za-z0-9+.-])(?:(?:[a-z][a-z0-9+.-]*|HTTPS?)://|(?:www|WWW)\.|mailto:|(?:tel|sms):\+?(?=\d))[^\s<>\"“”„»«]+",
    "email": r"(?<![\w.+%@'’-])(?:@?[\w.+%-]+(?:['’][\w.+%-]+)*@|[\w.+-]+ ?(?:\[at\]|\(at\)) ?)(?:[\w-]+"
    r"(?:(?:\.| ?[\[(](?:dot|punkt)[\])] ?)[\w-]+)+|localhost(?![\w-]))(?::[\w.~-]+/[\w./~-]*\w)?",
    "domain": rf"(?<![\w@.-])\w+(?:-\w+)+\.(?:{HYPHENATED})(?![\w-])"
    r"|(?<![\w@.-])[A-Z0-9-]+(?:\.[A-Z0-9-]+)*\.(?:COM|ORG|NET|INFO|EU|DE|AT|CH)(?![\w-])"
    rf"|(?<![\w@.-])[\w-]+(?:\.[\w-]+)*\.(?:(?:{DOMAINS})(?![\w-])(?:[:/][^\s<>\"“”„»«]*)?"
    r"|[a-z]{2,10}/[^\s<>\"“”„»«]+)|(?<![\w@.-])localhost:\d+(?:/[^\s<>\"“”„»«]*)?",
    "address": r"\[[0-9a-fA-F.]*:[0-9a-fA-F:.]*\](?::\d+)?"
    r"|(?<![\w:.])(?:[0-9a-fA-F]{1,4}:){1,7}:[0-9a-fA-F:]*(?:/\d+)?(?!\w)",
    "quoted": rf"(?<=[\"'„“‚»«])(?:[A-Za-z]:\\[^\"'“”‘»«\n]{{1,120}}"
    rf"|/(?:[^\"'“”‘»«\n/]{{1,60}}/){{1,20}}[^\"'“”‘»«\n/]{{1,60}}"
    rf"|[^\s\"'„“”‚‘»«\n][^\"'„“”‚‘»«\n]{{0,60}}\.(?:{FILES}))(?=[\"'“”‘»«])",
    "regex": r"(?<!\S)s/[^/\s]{1,40}/[^/\s]{0,40}/[gi]*(?![\w/])|"
    r"(?<![^\s\"'„“»])(?=\S{0,80}(?:\\[dwsbDWSB](?![^\W\d_])|\[\^(?!\d+\])|\[(?:A-Z|a-z|0-9)|\.[*+](?:\?|[\w()\[\]\\|$^/])"
    r"|\(\?(?:[imsx]+\)|[:=!<][^)\s])|/g$))"
    r"\S{0,120}(?:[*+]\?|[^\s.,;:!?])",
    "latex": r"\\\((?=[^\n\\]{0,100}(?:[\^_={}]|\\[A-Za-z]))[^\n]{1,160}?\\\)"
    r"|\\\[(?=[^\n\\]{0,100}(?:[\^_={}]|\\[A-Za-z]))[^\n]{1,160}?\\\]"
    r"|\$(?=[^$\n]{0,100}[\\^_=<>])[^\s\d$](?:[^$\n]{0,100}[^\s$\n])?\$(?!\w)"
    r"|\$[A-Za-z]\$(?!\d)|~?(?<![\w\\])\\[A-Za-z]+(?![\\\w/])(?:\[[^\[\]\n]{0,40}\])?(?:\{[^{}\n]{0,80}\})*",
    "sql": rf"(?<!\w)(?=[^\n]{{0,80}}[a-z*])(?:SELECT {OPERAND} FROM|UPDATE {OPERAND} SET) {OPERAND}{CLAUSES}*;?"
    rf"|(?<!\w)(?:DELETE FROM|INSERT INTO) {OPERAND}(?:{CLAUSES}+;?|;)"
    r"|(?<!\w)(?:(?:DROP|CREATE|ALTER|TRUNCATE) (?:TABLE|DATABASE|INDEX|VIEW)|(?:GROUP|ORDER) BY)"
    r" (?:\w+(?: CASCADE)?;|\w*[_.(]\w[\w.()]*(?: (?:CASCADE|ASC|DESC))*;?)",
    "shell": rf"(?<![\w.-])(?:(?:sudo )?(?:{COMMANDS}{ARGUMENT}*(?!\w)(?: (?:&&|\|) {COMMANDS}{ARGUMENT}*(?!\w))*"
    rf"|{TOOLS}{ARGUMENT}+"
    rf"|(?:{WORDS}(?= -[A-Za-z](?![\w-]))|{SHORT}(?= -[A-Za-z]{{1,4}}(?![\w-]))"
    rf"|(?:{WORDS}|{SHORT})(?= (?:--[a-z]|~?/[\w*]|\.{{1,2}}(?:/| -)|\.\.(?!\w))))"
    rf"{ARGUMENT}+)"
    rf"|{CMDLET}(?: -[A-Z]\w*| \| {CMDLET})(?: (?:-[A-Z]\w*|\| {CMDLET}|\"[^\"\n]{{0,80}}\"))*"
    rf"|(?:{VERBS})-(?:{NOUNS})(?![\w-]))"
    r"|(?<!\S)(?=[\d,/ -]{0,40}\*)(?:(?:\*(?:/\d+)?|\d[\d,/-]*) ){4}(?:\*|\d[\d,-]*)(?!\S)",
    "json": r'"[a-z_]\w*":\s?(?:\{[^{}\n]{0,120}\}|\[[^\[\]\n]{0,120}\]|"[^"\s]{0,80}"|-?\d[\d.]*|true|false|null)'
    r'|\{"[^{}\n]{0,120}\}',
    "variable": r"\\[nrt](?=[A-Z\u00c4-\u00dc\s%{<]|$)|"
    r"\{\w+, ?(?:plural|select|selectordinal), ?=?\w+ ?\{#?|\} =?\w+ \{#?|\}\}|"
    r"[$#%@]?\{\{?[^{}\n]{0,40}\}\}?|%\(\w+\)[a-zA-Z]|%(?:\d+\$)?[-+0]?\d*(?:\.\d+)?(?:hh?|ll?|z)?[sdifuxXegc@](?!\w)"
    r"|%%\w+%%|\*\|[A-Z][A-Z0-9_:]*\|\*|\|\|[A-Z][A-Z0-9_]+\|\||\(\([A-Z][A-Z0-9_]+\)\)"
    rf"|!{FIELD}!"
    r"|(?<!\w)@\w+@(?!\w)|%[A-Za-z](?:[:/. -]%[A-Za-z])+(?!\w)"
    r"|\[(?:/[a-z]{1,10}|(?:url|img|quote|code|list)|[a-z]{1,10}=[^\[\]\s]{1,80})\]|\[[bius]\](?=[^\n]{0,200}\[/[bius]\])"
    r"|\[/?[a-z_-]+(?: [\w-]+=(?:\"[^\"\n]{0,60}\"|[\w.-]+))+\]"
    r"|(?<!\w)(?:if|while|for|switch) ?\([^()\n]{1,60}\) ?\{[^{}\n]{0,80}\}"
    r"|(?<![\w-])(?:data(?:-[a-z]+){1,3}-(?:id|key|name|type|url|value|index)|data(?:-[a-z]+){1,4}(?==)"
    r"|aria-(?:label|labelledby|hidden|expanded|describedby|live|controls|checked|disabled|current))(?![\w-])"
    r"|\$\(\w+\)|###?\w+###?|<\?(?:=|php|xml)[^?\n]*\?>|<%[^%\n]*%>|@@\w+@@"
    r"|(?<![\w.-])[A-Za-z_][\w.]*\w=(?:true|false|null|\d[\w.]*|\w*[_/]\w[\w./-]*|\{[^{}\s]{1,40}\})(?![\w-])"
    r"|\$[A-Z]{1,2}\$\d+(?::\$[A-Z]{1,2}\$\d+)?|\$\w+\$|@[a-z]+/\w+"
    r"|\[[A-Za-z\u00c4-\u00fc]+\d\]|\[[A-Z\u00c4-\u00dc][A-Z0-9_\u00c4-\u00dc]{2,}\]"
    r"|%%|%\d+(?!\d)|%\w+%(?:\\[^\s<>\"|?*]+)?|\$[A-Za-z_]\w*(?:->\w+)*(?:=[\w./-]*\w|(?::?/[\w.+@~-]+)*)"
    r"|\[\[[^\[\]\n]*\]\]|(?<!\w)__\w+__",
    "entity": r"&(?:#\d+|#x[0-9a-fA-F]+|[a-zA-Z]+\d*);",
    "markup": r"<[A-Za-z][^<>\n]*>(?:\{\{?[^{}\n]{0,40}\}\}?|%\w+|[\d.,]+)</[A-Za-z][^<>\n]*>"
    r"|<(?:kbd|code|samp|var)>[^<>\n]{0,60}</(?:kbd|code|samp|var)>"
    r"|<<\w+>>|</?[A-Za-z][^<>\n]*>|</?\d+/?>|`[^`\n]+`",
    "path": r"(?<!\w)[A-Za-z]:/[\w.+@~-]+(?:/[\w.+@~-]+)*/?"
    rf"|[A-Za-z]:\\(?:[\w .()+&-]{{1,60}}\\)*[\w.()+&-]+(?: [A-Z0-9(_][\w()+&-]*){{1,3}}\.(?:{FILES})(?!\w)"
    r"|[A-Za-z]:\\(?:[\w .()+&-]{1,60}\\)*[^\s<>\"|?*]*|\\\\[^\s<>\"|?*]+"
    r"|(?<![\w./)])(?:~|\.{1,2})?/(?:[\w.+@~-]+/)+[\w.+@~-]+(?: [\w.+@~-]*\w)/(?!\w)"
    r"|(?<![\w./)])(?:~|\.{1,2})?/(?:[\w.+@~-]+/)*[\w.+@~-]+/?|(?<![\w/-])[\w-]+(?:/[\w-]+)*/\.[a-z]\w*"
    r"|(?<![\w./-])(?=[\w/-]*[_\d])[\w-]+(?:/[\w-]+)+\.[a-z][a-z0-9]{1,4}(?!\w|\.\w)"
    r"|(?<![\w./-])(?:(?:src|lib|usr|node_modules|tmp)/"
    r"|(?:var|assets|dist|opt|vendor|feature|bugfix|hotfix|origin|upstream)/(?=[\w@~+]*[/\d._-]|main\b|master\b))(?:[\w.+@~-]+/)*(?:[\w.+@~-]*\w)?"
    r"|(?<![\w\\])(?:[A-Za-z]\w+\\\w[\w.-]*|[A-Z][A-Z0-9_-]{2,})(?:\\\w(?:[\w.-]*\w)?)+",
    "file": rf"(?<![\w./-])[\w-]+(?:[./][\w-]+)*(?: ?\(\d+\))?\.(?:{FILES})(?:\.\d+)*(?::\d+){{0,2}}(?![\w(])"
    rf"|(?<!\S)\d{{1,3}} - \w+\.(?:{FILES})(?!\w)"
    r"|(?<![\w./-])(?:(?=[A-Za-z][\w-]*[\d_])[\w-]+(?:\.[\w-]+)*\.(?:bin|hex|dat)|winmail\.dat)(?!\w)"
    r"|(?<!\S)\*?\.[a-z][\w.]*\w(?:-[a-z]\w*)*(?:/[\w.+-]*\w)*",
    "option": r"(?<![\w-])--[A-Za-z][\w-]*(?:=\S+)?|(?<=\S )-(?![aeiouyAEIOUY])[a-zA-Z](?![\w'’)-])"
    r"|(?<![\w+])(?:(?:Ctrl|Alt|AltGr|Shift|Cmd|Win)\+)+(?:F?\d{1,2}|[A-Z])(?!\w)",
    "handle": r"(?<![\w@#])(?:(?:RT )?@\w+(?:[.-]\w+)*|#(?=[A-Z]*\d)\w+(?:-\w+)*|#\w+(?:-[a-z0-9_]+)*)"
    r"|(?<!\S)![a-z]\w+(?!\w)|(?<!\S)~\w+~(?!\w)|(?<![\w/])[ur]/\w+(?:-\w+)*|(?<!\S):[a-z]\w+:?(?!\w)",
    "formula": rf"(?<![\w.,=]){TERMS}(?:(?: ?(?:[=≤≥≈≠]|[<>!:=]=) ?| [<>] ){TERMS})+"
    rf"|(?<![\w.])[A-Za-z0-9]+\^[+−-]?\w+(?: ?{UNIT})?",
    "comparison": rf"(?<![\w.]){CODE_WORD} (?:[!=]==?|&&|\|\||:=|=>|[<>]=) (?:[\w.]*\w(?:\(\))?|'[^'\n]{{0,40}}')"
    rf"|(?<![\w.])[A-Za-z_]\w* (?:[!=]==?|:=) (?:{CODE_WORD}|true|false|null|None|\d[\d.]*|'[^'\n]{{0,40}}')(?!\w)",
    "molecule": rf"(?<!\w)(?:{MOLECULE}(?: (?:\+|->|→|⇌|=) \d*{MOLECULE})+"
    rf"|(?=\(|[A-Z][A-Za-z\d]*(?:\([A-Z][A-Za-z\d₀-₉]*\)[\d₀-₉]|[₀-₉])){MOLECULE}[⁺⁻]?"
    rf"|(?=[A-Z][a-z]?\d*[A-Z]){MOLECULE}(?:[²³]?[⁺⁻]|[+-](?![\w-])))",
    "spreadsheet": rf"(?<![\w=])=(?:[A-ZÄÖÜ][A-ZÄÖÜ.0-9]*\({INSIDE}\)"
    rf"|\$?[A-Z]{{1,2}}\$?\d+(?:[*/:+-]\$?[A-Z\d][A-Z\d$]*)+)",
    "style": r"(?<!\S)[a-z]+(?:-[a-z]+)+: ?(?:\d+(?:\.\d+)?(?:px|em|rem|%|pt|vh|vw)|#[0-9a-fA-F]{3,8});"
    r"|(?<![\w-])(?:color|display|margin|padding|width|height|position|float|overflow|opacity): ?"
    r"(?:[#\d][\w.%]*|auto|none|block|flex|grid|inline|absolute|relative|fixed|hidden|inherit|left|right);",
    "mixed": r"(?<![^\s\"'„(])(?=[^\s\d]{0,40}\d)(?!\S{0,60}(?:\]\(|://))(?=\S{0,40}\w[#!~|$@&^]\w)"
    r"[^\s.,;:!?\"'“”()](?:\S{0,60}[^\s.,;:!?\"'“”()])?",
    "identifier": r"(?<!\w)(?:[a-z_][\w.]*\((?=[^()\n]*[\"'=])[^()\n]{0,80}\)|\w+_\w+\([^()\n]{0,80}\)"
    rf"|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\({INSIDE}\)"
    r"|(?:rgb|hsl)a?\([\d., %]{1,40}\)|[a-z]\w*\((?=\d[\d.]*%?, )[\d., %]{1,40}\)"
    r"|[a-z_]\w+(?:\.[A-Za-z_]\w+){2,}|\w+(?:::|->)\w+(?:<\w+>)?"
    r"|[A-Z]\w*<(?:[A-Z]\w*[a-z]\w*|[KTVE])(?:, ?(?:[A-Z]\w*[a-z]\w*|[KTVE]))*>"
    r"|[a-z_]\w*\[\]|[a-z]\[\d+\]|C(?:\+\+|\#(?![ -](?:minor|major|[mM]oll|[dD]ur|mineur|majeur)))|\.NET"
    r"|(?=\w{5})[A-Z][a-z]+(?!Innen|In(?!\w))(?:[A-Z][a-z]+)+[A-Z]*|[A-Za-z_]\w*\(\)|[A-Za-z]\w*_\w+(?:\.[a-z]\w*)*(?:-\d{2,})*"
    r"|[a-z]+[A-Z]\w*\([^()\n]{0,80}\)|[a-z_]\w*\[(?:[ijkn]|\w+[+*:-]\w+)\]"
    r"|[a-z]+[A-Z]\w*(?:\[\w*\]|\.[a-z]\w*(?:\([^()\n]{0,80}\))?)*)(?!\w)|\[(?:ERROR|WARN(?:ING)?|INFO|DEBUG|FATAL)\]",
    "hexadecimal": r"(?<!\w)(?:(?:sha\d{1,3}|md5)[:=][0-9a-fA-F]+|[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
    r"|0x[0-9a-fA-F]+|(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,})(?!\w)",
    "mac": r"(?<!\w)[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5}(?!\w)",
    "iban": r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?\d{1,3})?(?!\w)",
    "plate": r"(?<!\w)[A-ZÄÖÜ]{1,3}[-·][A-ZÄÖÜ]{1,2} \d{1,4}(?: ?[EH])?(?!\w|[.,]\d)"
    r"|(?<!\w)[A-ZÄÖÜ]{1,3} [A-Z]{1,2} \d{1,4} ?[EH](?!\w|[.,]\d)",
    "coordinate": rf"(?<!\w)[NSEWO] {ANGLE} ?{DIGITS}['′]?(?!\w)|(?<![\w.,]){ANGLE} [NSEWO](?!\w)",
    "release": r"(?:(?<![\w=<>!~])[<>=~!]=|(?<!\S)[<>^~])v?\d+(?:\.\d+)*(?:,[<>=!]=?\d+(?:\.\d+)*)*(?![\w>.])"
    r"|(?<![\w.])(?:\d+(?:\.\d+)+ LTS|\d+(?:\.\d+){2,}-\d+-[a-z]+)(?!\w)"
    r"|(?<![\w.])v?\d+(?:\.\d+)+-?(?:(?:rc|alpha|beta|dev|post|pre|SNAPSHOT|LTS)[.-]?\d*|[abp]\d+)(?!\w)",
    "timestamp": r"(?<![\w.,:])\d{1,2}:\d{2}(?::\d{2})?(?:[+−-]\d{2}:?\d{2}|Z)(?!\w)",
    "part": r"(?<!\w)(?=\d{0,2}[A-Z])[A-Z0-9]{3} \d{3} \d{3}(?: [A-Z]{1,2})?(?!\w)",
    "case": r"(?<![\w.,])\d{1,4} [A-Z][A-Za-z]{0,3} \d+/\d{2,4}(?!\w)",
    "scientific": rf"(?<![\w.,]){DIGITS}(?:[eE][+−-]?\d+|\s?[·×]\s?10(?:\^[+−-]?\d+|[⁺⁻]?[⁰¹²³⁴-⁹]+))(?!\w)",
    "dimension": r"(?<!\w)\d{3}/\d{2} ?Z?R ?\d{2}(?: \d{2,3}[A-Z])?(?!\w)|"
    rf"(?<![\w.,]){DIGITS}(?: ?[x×] ?{DIGITS})+(?: ?{UNIT})?(?!\w)",
    "phone": r"(?<![\w)])\(0[\d ]{1,9}\) ?\d+(?:[ /-]\d+)*",
    "amount": r"(?<![\w.,:/-])\d+[a-df-gi-rt-z](?![\w-])",  # 1950s, 7h and 2e have translations
    "code": r"(?<!\w)(?:\[[A-Za-z]\w*#\d+\]|[A-Za-z]\w*#\d+"
    r"|[A-Z]+\d+-[A-Z][a-z]|[A-Z]{1,4}/\d+(?:[-/](?:\d+|[a-zß-ü]{1,4}|[A-Z]{1,4}))+"
    r"|\d{3,}-[A-ZÄÖÜ]{2,}(?:/[A-Z0-9]+)*"
    r"|(?=[A-ZÄÖÜ0-9_./:-]*\d)(?=[A-ZÄÖÜ0-9_./:-]*[A-ZÄÖÜ])[A-ZÄÖÜ0-9]+(?:[-_./:][A-ZÄÖÜ0-9]+)*(?:\+(?:[A-Z]{1,2})?)?)"
    rf"(?:{PRODUCT})?(?![\w])",
    "version": r"(?<!\w)(?:[A-Za-z]+|[^\W\d_\u0000-\u024f]+)[-_]?\d+(?:(?:(?!-[^\W\d_]{3})[\w.-])*(?<=\w))?"
    rf"(?:{PRODUCT})?",
    "emoticon": r"(?<!\S)(?:\\o[/\\]|-[._]+-|[>][._]+<|[uT]_[uT]"
    r"|[:;=][-o*']?[)(\]\[DPpOo/\\|*]+|<3|\^_?\^|[xX]D|[oO]_[oO]"
    r"|¯\\_\(ツ\)_/¯|\([^\w\s()]_[^\w\s()]\)"
    r"|\((?:(?!\w)[°¬^~•\u2190-\uffff]){2,8}\)(?:(?!\w)[°^~\u2190-\uffff]){0,4}(?: ┻━┻)?)(?!\w)",
    "emoji": f"[0-9#*]\ufe0f?\u20e3|[{EMOJI}][{EMOJI}{JOINERS}]*",
    "number": rf"\+/-|(?<![\w])(?:Ø ?)?{NUMBER}(?:\s?(?:(?:[€$£¥%‰°]C?|[KMGT]i?B|EUR|USD|CHF|GBP)(?!\w)"
    rf"|{UNIT}))?(?!\d|[.,:]\d|-?[^\W\d_])"
    r"|(?<!\w)\d+(?:[.,:]\d+)+(?=-?[^\W\d_])"
    rf"|[€$£¥]\s?{NUMBER}(?!\w)",
}
CODE = (
    "comparison", "address", "quoted", "latex", "sql", "shell", "json", "regex", "formula", "molecule", "spreadsheet",
    "style",
    "coordinate", "release", "scientific",
)  # fmt: skip


def compiled(kinds: Iterable[str]) -> re.Pattern[str]:
    """One pattern for several kinds; no span begins inside of a word."""
    return re.compile(rf"(?:(?<!\w)|(?!\w))(?:{'|'.join(f'(?P<{kind}>{PATTERNS[kind]})' for kind in kinds)})")


SPANS = compiled(PATTERNS)
TEXT_SPANS = compiled(kind for kind in PATTERNS if kind not in CODE)
# What each kind of CODE has one of; most lines have none, and are searched for the other kinds in half the time.
CODE_SIGNS = re.compile(
    rf"[\\^=<>~≤≥≈≠°*₀-₉⁺⁻]|::|(?<!\S)s/|&&|\|\||\[[0-9a-fA-F.]*:|\$[^$\n]*[_$]|[\"'„“‚»«]/|\.(?:{FILES})[\"'“”‘»«]|\w\":"
    rf"|\{{\"|\[[A-Za-z0-9]-|\.\+"
    rf"|\(\?|/g$|[A-Za-z0-9]\(|[A-Za-z0-9][+-](?![\w-])|[A-Za-z0-9)] (?:\+|->|→|⇌) |: ?[#\w.%-]+;"
    rf"|\d LTS|\d-\d+-[a-z]|\d-?(?:rc|alpha|beta|dev|post|pre|SN|LT|[abpeE])"
    rf"|[·×]\s?10|(?:SELECT|UPDATE|INTO|DELETE|TABLE|DATABASE|INDEX|VIEW|BY) |(?:{VERBS})-[A-Z]"
    rf"|(?<![\w.-])(?:{TOOLS}|{WORDS}|{SHORT}|systemctl|yarn|pnpm|apt|apt-get|brew|conda|dnf|yum) \S"
)
# Every span has one of these in it; most sentences have none, and are found to have none twenty times as fast.
POSSIBLE = re.compile(
    rf"[\d@#/\\$%{{}}<>&`\[_^=:;(*|>~≤≥≈≠₀-₉½⅓¼⅔¾⅛\uf100-\uf2ff{EMOJI}]|\.\w|www\.|[a-z][A-Z]|[xX]D|--[A-Za-z]"
    r"|[A-Fa-f]{2}-[A-Fa-f]{2}|^\s*[*+•‣▪◦●○■□►·–—-]\s|[A-Z](?:E|T|P|R|N|Y|IN) \S|[a-z]-[A-Z]"
    r"|(?:git|docker|systemctl|np[mx]|yarn|pip3?|apt|apt-get|brew|conda|dnf|yum|kubectl) [a-z]"
    r"|[a-z] ['\"+-]|[A-Za-z]\+|data-|aria-|(?<!\S)-[A-Za-z]|![A-Za-z]| \.(?:\.| -)|\.[:@+-]"
)
